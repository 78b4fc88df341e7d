package toolchain

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"kelson.dev/toolchain/loader"
)

// sameMeaning reports whether two versions of a generated file mean the same: Go files with the
// same functions in any order, and YAML files with the same objects. In objects, it ignores
// differences that come from other versions of controller-gen or from later steps of a project's
// build: controller-gen's annotation, the order of webhooks, how rules are merged, line breaks in
// descriptions, and missing descriptions. In Go files, it ignores how deepcopy-gen writes the
// same: with a return at the end of functions, and without a variable for the values of maps.
func sameMeaning(name string, have, want []byte, resolve aliases) bool {
	switch path.Ext(name) {
	case ".go":
		a, okA := functions(have, resolve)
		b, okB := functions(want, resolve)
		return okA && okB && maps.Equal(a, b)
	case ".yaml":
		a, okA := documents(have)
		b, okB := documents(want)
		return okA && okB && equalMeaning(a, b)
	}
	return false
}

// documents returns the objects of a YAML stream, without those that are only comments.
func documents(data []byte) ([]any, bool) {
	var docs []map[string]any
	for part := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---")) {
		var doc map[string]any
		if err := yaml.Unmarshal(part, &doc); err != nil {
			return nil, false
		}
		if doc == nil {
			continue
		}
		if meta, ok := doc["metadata"].(map[string]any); ok {
			delete(meta, "creationTimestamp")
			if notes, ok := meta["annotations"].(map[string]any); ok {
				if delete(notes, versionAnnotation); len(notes) == 0 {
					delete(meta, "annotations")
				}
			}
		}
		delete(doc, "status")
		if hooks, ok := doc["webhooks"].([]any); ok {
			slices.SortStableFunc(hooks, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
		}
		if rules, ok := doc["rules"].([]any); ok && strings.HasSuffix(fmt.Sprint(doc["kind"]), "Role") {
			doc["rules"] = grants(rules)
		}
		docs = append(docs, doc)
	}
	slices.SortStableFunc(docs, func(a, b map[string]any) int { return strings.Compare(identity(a), identity(b)) })
	all := make([]any, len(docs))
	for i, d := range docs {
		all[i] = d
	}
	return all, true
}

func nameOf(v any) string {
	m, _ := v.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// identifier returns an import path as a Go identifier.
func identifier(path string) string {
	return strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(path)
}

// aliases resolves a name in a package: if it is an alias of a named type, it returns the import
// path and the name of that type, and true. The import path of the Go file's own package is "".
type aliases func(path, name string) (string, string, bool)

// aliasesOf resolves the aliases that a file of a package uses.
func aliasesOf(ws *loader.Workspace, p *loader.Package) aliases {
	return func(path, name string) (string, string, bool) {
		declared := p
		if path != "" {
			var err error
			if declared, err = ws.Import(path); err != nil {
				return "", "", false
			}
		}
		d := declared.Type(name)
		if d == nil || !d.Alias {
			return "", "", false
		}
		target, ok := d.Type().Source().(*loader.Named)
		switch {
		case !ok:
			return "", "", false
		case target.Decl.Pkg == p:
			return "", target.Decl.Name, true
		}
		return target.Decl.Pkg.Path, target.Decl.Name, true
	}
}

// grants splits rules into single grants, sorted. A grant is a verb on a resource of a group, or on
// a URL.
func grants(rules []any) []any {
	found := map[string]bool{}
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		values := func(key string) []any {
			if list, ok := rule[key].([]any); ok && len(list) > 0 {
				return list
			}
			return []any{""}
		}
		for _, group := range values("apiGroups") {
			for _, resource := range values("resources") {
				for _, name := range values("resourceNames") {
					for _, url := range values("nonResourceURLs") {
						for _, verb := range values("verbs") {
							found[fmt.Sprint(group, " ", resource, " ", name, " ", url, " ", verb)] = true
						}
					}
				}
			}
		}
	}
	all := make([]any, 0, len(found))
	for _, g := range slices.Sorted(maps.Keys(found)) {
		all = append(all, g)
	}
	return all
}

// equalMeaning compares decoded YAML.
func equalMeaning(have, want any) bool {
	switch h := have.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		if !ok {
			return false
		}
		h, w = hoisted(h), hoisted(w)
		for k, v := range h {
			if _, both := w[k]; !both || !equalMember(k, v, w[k]) {
				return false
			}
		}
		for k, v := range w {
			if _, both := h[k]; both {
				continue
			}
			if _, text := v.(string); !text || k != "description" {
				return false
			}
		}
		return true
	case []any:
		w, ok := want.([]any)
		return ok && slices.EqualFunc(h, w, equalMeaning)
	}
	return reflect.DeepEqual(have, want)
}

var counted = regexp.MustCompile(`^\[(.*)\]\.filter\(x,x==true\)\.size\(\)(.*)$`)

// sum converts a CEL rule that counts set fields by filtering a list, as controller-gen before
// v0.23 writes it, to one that adds, as v0.23 writes it.
func sum(rule string) string {
	m := counted.FindStringSubmatch(rule)
	if m == nil {
		return rule
	}
	fields := strings.Split(m[1], ",")
	for i, f := range fields {
		fields[i] = "(" + f + "?1:0)"
	}
	return strings.Join(fields, "+") + m[2]
}

func equalMember(key string, have, want any) bool {
	a, textA := have.(string)
	b, textB := want.(string)
	switch {
	case key == "description" && textA && textB:
		a, b = strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " ")
		// versions before v0.12 kept the text after ---, and before v0.17 lines that begin with
		// TODO
		return a == b || strings.HasPrefix(a, b+" --- ") || strings.HasPrefix(a, b+" TODO") ||
			withoutTODO(have.(string)) == b
	case key == "rule" && textA && textB:
		return a == b || sum(a) == sum(b)
	}
	return equalMeaning(have, want)
}

// withoutTODO returns a description without the lines that begin with TODO, in one line.
func withoutTODO(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "TODO") {
			kept = append(kept, strings.Fields(line)...)
		}
	}
	return strings.Join(kept, " ")
}

// hoisted returns a schema in which an allOf of equal enums is the enum: versions before v0.14
// wrote the enum of a field and that of its type, although they are equal.
func hoisted(schema map[string]any) map[string]any {
	parts, ok := schema["allOf"].([]any)
	if _, has := schema["enum"]; !ok || has || len(parts) == 0 {
		return schema
	}
	for _, p := range parts {
		part, ok := p.(map[string]any)
		if !ok || len(part) != 1 || part["enum"] == nil || !reflect.DeepEqual(p, parts[0]) {
			return schema
		}
	}
	schema = maps.Clone(schema)
	delete(schema, "allOf")
	schema["enum"] = parts[0].(map[string]any)["enum"]
	return schema
}

// identity returns the kind and name of an object, for sorting.
func identity(doc map[string]any) string {
	kind, _ := doc["kind"].(string)
	meta, _ := doc["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	return kind + "/" + namespace + "/" + name
}

// functions returns the functions of a Go file by receiver and name, as text with import paths
// instead of the names of imports, and targets instead of aliases.
func functions(src []byte, resolve aliases) (map[string]string, bool) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, false
	}
	paths := map[string]string{}
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		paths[name] = p
	}
	found := map[string]string{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && paths[x.Name] != "" {
					p := paths[x.Name]
					if target, name, ok := resolve(p, n.Sel.Name); ok {
						p, n.Sel.Name = target, name
					}
					x.Name = identifier(p)
				}
				return false
			case *ast.Ident:
				if p, name, ok := resolve("", n.Name); ok && p == "" {
					n.Name = name
				} else if ok {
					n.Name = identifier(p) + "." + name
				}
			}
			return true
		})
		dropReturn(fn.Body)
		fn.Doc = nil
		var text, recv bytes.Buffer
		if format.Node(&text, fset, fn) != nil {
			return nil, false
		}
		if fn.Recv != nil && format.Node(&recv, fset, fn.Recv.List[0].Type) != nil {
			return nil, false
		}
		found[recv.String()+"."+fn.Name.Name] = strings.ReplaceAll(strings.Join(strings.Fields(text.String()), " "),
			"inVal := (*in)[key] in, out := &inVal, &outVal", "in, out := &val, &outVal")
	}
	return found, true
}

// dropReturn removes a return without results from the end of a function.
func dropReturn(body *ast.BlockStmt) {
	last := len(body.List) - 1
	if last < 0 {
		return
	}
	switch end := body.List[last].(type) {
	case *ast.BlockStmt:
		dropReturn(end)
	case *ast.ReturnStmt:
		if len(end.Results) == 0 {
			body.List = body.List[:last]
		}
	}
}
