package openapi

import (
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// FileName and ModelFileName are the names of the generated files.
const (
	FileName      = "zz_generated.openapi.go"
	ModelFileName = "zz_generated.model_name.go"
)

// Config configures Generate.
type Config struct {
	API      *model.API
	Packages []*model.Package
	// Path is the import path of the package to write.
	Path   string
	Header string
}

// Generate returns the Go source, or nil if there are no definitions. The error joins all errors.
func Generate(cfg Config) ([]byte, error) {
	g := &generator{Config: cfg, File: source.New(cfg.Path, "openapi"), done: map[string]*loader.Named{}}
	for _, p := range cfg.Packages {
		for _, t := range p.Types {
			if selected(p, t) {
				g.want(t.Type())
			}
		}
	}
	if len(g.queue) == 0 {
		return nil, nil
	}
	functions := map[string]string{}
	for len(g.queue) > 0 {
		n := g.queue[0]
		g.queue = g.queue[1:]
		functions[g.name(n)] = g.definition(n)
	}
	if len(g.errs) > 0 {
		return nil, errors.Join(g.errs...)
	}
	names := slices.Sorted(maps.Keys(functions))
	var entries, bodies strings.Builder
	for _, n := range names {
		fmt.Fprintf(&entries, "%q: %s(ref),\n", n, function(n))
		bodies.WriteString(functions[n])
	}
	g.Expand(`// GetOpenAPIDefinitions returns the definitions by name. ref returns a reference to a name.
func GetOpenAPIDefinitions(ref $commonapi.ReferenceCallback) map[string]$commonapi.OpenAPIDefinition {
	return map[string]$commonapi.OpenAPIDefinition{
		$entries}
}
`, source.Vars{"entries": entries.String()})
	g.Printf("%s", bodies.String())
	return g.Bytes(source.Options{Header: cfg.Header})
}

// selected reports whether a type gets a definition even if no other definition refers to it.
func selected(p *model.Package, t *model.Type) bool {
	if t.Generic() || !ast.IsExported(t.Name) {
		return false
	}
	if _, ok := t.Type().Underlying().(*loader.Struct); !ok {
		return false
	}
	for _, m := range t.Markers {
		if m.Name == "k8s:openapi-gen" && (m.Text() == "true" || m.Text() == "false") {
			return m.Text() == "true"
		}
	}
	for _, m := range p.Markers {
		if m.Name == "k8s:openapi-gen" && (m.Text() == "true" || m.Text() == "false") {
			return m.Text() == "true"
		}
	}
	return p.HasAPI
}

type generator struct {
	Config
	*source.File
	done  map[string]*loader.Named
	queue []*loader.Named
	errs  []error
	owner *model.Type
}

// want schedules the definition of a type, once.
func (g *generator) want(n *loader.Named) {
	if g.done[n.String()] == nil {
		g.done[n.String()] = n
		g.queue = append(g.queue, n)
	}
}

// name returns the name of a type's definition: from the package's model name or its import path.
func (g *generator) name(n *loader.Named) string {
	prefix := n.Decl.Pkg.Path
	if m := g.API.Type(n.Decl).Markers.Get("k8s:openapi-model-package"); m != nil {
		prefix = m.Text()
	} else if m := g.API.PackageMarkers(n.Decl.Pkg).Get("k8s:openapi-model-package"); m != nil {
		prefix = m.Text()
	}
	return prefix + "." + n.Decl.Name
}

// function returns the name of the function that returns a definition.
func function(name string) string {
	return "schema_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}

// definition generates the function for a type.
func (g *generator) definition(n *loader.Named) string {
	t := g.API.Type(n.Decl)
	g.owner = t
	vars := source.Vars{"function": function(g.name(n)), "T": g.Type(n)}
	common, spec := g.Use(source.Packages["commonapi"].Path, "common", "common"),
		g.Use(source.Packages["spec"].Path, "spec", "spec")
	vars["common"], vars["spec"] = common, spec
	body := ""
	switch {
	case method(n, "OpenAPIDefinition"):
		body = "return §T{}.OpenAPIDefinition()"
	case method(n, "OpenAPISchemaType") && method(n, "OpenAPIV3OneOfTypes"):
		body = "return §common.EmbedOpenAPIDefinitionIntoV2Extension(§common.OpenAPIDefinition{Schema: §spec.Schema{SchemaProps: §spec.SchemaProps{\n" +
			description(t.Doc) + "OneOf: §common.GenerateOpenAPIV3OneOfSchema(§T{}.OpenAPIV3OneOfTypes()),\nFormat: §T{}.OpenAPISchemaFormat(),\n}}},\n" +
			"§common.OpenAPIDefinition{Schema: §spec.Schema{SchemaProps: §spec.SchemaProps{\n" + description(t.Doc) +
			"Type: §T{}.OpenAPISchemaType(),\nFormat: §T{}.OpenAPISchemaFormat(),\n}}})"
	case method(n, "OpenAPISchemaType"):
		body = "return §common.OpenAPIDefinition{Schema: §spec.Schema{SchemaProps: §spec.SchemaProps{\n" +
			description(t.Doc) +
			"Type: §T{}.OpenAPISchemaType(),\nFormat: §T{}.OpenAPISchemaFormat(),\n}}}"
	default:
		schema, refs := g.structure(n)
		body = "return §common.OpenAPIDefinition{\nSchema: §spec.Schema{\n" + schema + "},\n"
		if len(refs) > 0 {
			body += "Dependencies: []string{" + strings.Join(refs, ", ") + "},\n"
		}
		body += "}"
	}
	text := "func §function(ref §common.ReferenceCallback) §common.OpenAPIDefinition {\n" + body + "\n}\n\n"
	for name, value := range vars {
		text = strings.ReplaceAll(text, "§"+name, value) // not $, which documentation may contain
	}
	return text
}

// method reports whether the type has a method that generated definitions call.
func method(n *loader.Named, name string) bool {
	m := loader.FindMethod(n, name)
	return m != nil && m.Func.Type.Params.NumFields() == 0
}

// description returns the schema's member description, or "".
func description(doc string) string {
	if text := paragraphs(doc); text != "" {
		return fmt.Sprintf("Description: %q,\n", text)
	}
	return ""
}

// paragraphs returns documentation in OpenAPI's form: each paragraph on one line, indented lines
// unchanged.
func paragraphs(doc string) string {
	var b strings.Builder
	trim := func() {
		if s := b.String(); s != "" {
			b.Reset()
			b.WriteString(s[:len(s)-1])
		}
	}
	for line := range strings.SplitSeq(doc, "\n") {
		line = strings.TrimRight(line, " ")
		switch {
		case line == "":
			trim()
			b.WriteString("\n\n")
		case strings.HasPrefix(strings.TrimLeft(line, " "), "TODO"),
			strings.HasPrefix(strings.TrimLeft(line, " "), "+"):
		case line[0] == ' ' || line[0] == '\t':
			trim()
			b.WriteString("\n" + line + "\n")
		default:
			b.WriteString(line + " ")
		}
	}
	return strings.TrimSpace(b.String())
}

// ModelNames returns the source of OpenAPIModelName methods; nil if the package does not request
// them.
func ModelNames(p *model.Package, header string) ([]byte, error) {
	prefix := ""
	if m := p.Markers.Get("k8s:openapi-model-package"); m != nil {
		prefix = m.Text()
	}
	f := source.New(p.Path, p.Name)
	for _, t := range p.Types {
		typePrefix := prefix
		if m := t.Markers.Get("k8s:openapi-model-package"); m != nil {
			typePrefix = m.Text()
		}
		if _, ok := t.Type().Underlying().(*loader.Struct); !ok || typePrefix == "" || t.Generic() ||
			!ast.IsExported(t.Name) ||
			loader.FindMethod(t.Type(), "OpenAPIModelName") != nil {
			continue
		}
		f.Printf("// OpenAPIModelName returns the name of the type's OpenAPI definition.\nfunc (in %s) OpenAPIModelName() string { return %q }\n", t.Name, typePrefix+"."+t.Name)
	}
	if f.Len() == 0 {
		return nil, nil
	}
	return f.Bytes(source.Options{Header: header, Constraint: source.Constraint})
}
