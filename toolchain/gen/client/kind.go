package client

import (
	"fmt"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/model"
)

// kind generates the client of a kind.
func (g *generator) kind(k *model.ClientKind) {
	v := k.Version
	f := source.New(g.out.Typed(v), v.Name)
	api := f.Use(v.Package.Path, v.Package.Name, v.Group.Package+v.Name)
	apply := g.out.Apply && (k.Has("apply") || k.Has("applyStatus"))
	vars := source.Vars{
		"Kind": k.Name, "Plural": k.Plural, "resource": k.Resource,
		"private": strings.ToLower(k.Plural[:1]) + k.Plural[1:],
		"T":       "*" + api + "." + k.Name, "L": "*" + api + "." + k.Name + "List", "new": "&" + api + "." + k.Name,
		"arg":    Argument(k.Name),
		"Client": v.Group.GoName + v.GoName + "Client",
		"scheme": f.Use(g.out.Clientset()+"/scheme", "scheme", "scheme"),
		"param":  "", "A": "",
	}
	if k.Namespaced {
		vars["param"] = "namespace string"
	}
	if apply {
		vars["A"] = "*" + f.Use(g.out.ApplyConfiguration(v), v.Name, "applyconfiguration"+v.Group.Package+v.Name) +
			"." + k.Name + "ApplyConfiguration"
	}
	base, types, news := "Client", vars["T"], "func() $T { return $new{} },"
	if k.HasList {
		base, types, news = base+"WithList", types+", "+vars["L"], news+"\nfunc() $L { return ${new}List{} },"
	}
	if apply {
		base = map[bool]string{true: "ClientWithListAndApply", false: "ClientWithApply"}[k.HasList]
		types += ", " + vars["A"]
	}
	vars["base"], vars["types"] = base, types
	f.Expand(`// ${Plural}Getter has the client of $resource.
type ${Plural}Getter interface { $Plural($param) ${Kind}Interface }

// ${Kind}Interface is the client of $resource.
type ${Kind}Interface interface {`, vars)
	for _, m := range methods {
		if k.Has(m.verb) && (m.verb != "apply" && m.verb != "applyStatus" || apply) {
			f.Expand(m.signature, vars)
		}
	}
	for _, m := range k.Methods {
		f.Expand(g.signature(f, k, m, vars), vars)
	}
	f.Expand(`}

type $private struct { *$gentype.$base[$types] }

func new$Plural(c *$Client, namespace string) *$private {
	return &$private{$gentype.New$base[$types](
		"$resource", c.RESTClient(), $scheme.ParameterCodec, namespace,
		`+news+`
	)}
}
`, vars)
	for _, m := range k.Methods {
		g.method(f, k, m, vars)
	}
	g.add(f, strings.ToLower(k.Name)+".go")
}

// methods returns the methods of a kind's interface, in client-gen's order.
var methods = []struct{ verb, signature string }{
	{"create", "Create(ctx $context.Context, $arg $T, opts $metav1.CreateOptions) ($T, error)"},
	{"update", "Update(ctx $context.Context, $arg $T, opts $metav1.UpdateOptions) ($T, error)"},
	{"updateStatus", "UpdateStatus(ctx $context.Context, $arg $T, opts $metav1.UpdateOptions) ($T, error)"},
	{"delete", "Delete(ctx $context.Context, name string, opts $metav1.DeleteOptions) error"},
	{"deleteCollection", "DeleteCollection(ctx $context.Context, opts $metav1.DeleteOptions, listOpts $metav1.ListOptions) error"},
	{"get", "Get(ctx $context.Context, name string, opts $metav1.GetOptions) ($T, error)"},
	{"list", "List(ctx $context.Context, opts $metav1.ListOptions) ($L, error)"},
	{"watch", "Watch(ctx $context.Context, opts $metav1.ListOptions) ($watch.Interface, error)"},
	{"patch", "Patch(ctx $context.Context, name string, pt $types_.PatchType, data []byte, opts $metav1.PatchOptions, subresources ...string) ($T, error)"},
	{"apply", "Apply(ctx $context.Context, $arg $A, opts $metav1.ApplyOptions) ($T, error)"},
	{"applyStatus", "ApplyStatus(ctx $context.Context, $arg $A, opts $metav1.ApplyOptions) ($T, error)"},
}

// Argument returns a parameter name for a kind, which is not a Go keyword.
func Argument(kind string) string {
	name := strings.ToLower(kind[:1]) + kind[1:]
	switch name {
	case "break", "case", "chan", "const", "continue", "default", "defer", "else", "fallthrough", "for", "func", "go",
		"goto", "if", "import",
		"interface", "map", "package", "range", "return", "select", "struct", "switch", "type", "var":
		return name + "_"
	}
	return name
}

// typeOf returns the type that a marker of a method names, with its import path unless it is of the
// kind's own package.
func typeOf(f *source.File, k *model.ClientKind, name, kind string) string {
	if name == "" {
		return kind
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		path := name[:i]
		last := path[strings.LastIndexByte(path, '/')+1:]
		return "*" + f.Import(path, last) + "." + name[i+1:]
	}
	return "*" + f.Qualified(k.Version.Package.Path, k.Version.Package.Name, name)
}

// applied returns the apply configuration that is a method's input.
func (g *generator) applied(f *source.File, k *model.ClientKind, m model.ClientMethod, own string) string {
	if m.Input == "" {
		return own
	}
	i := strings.LastIndexByte(m.Input, '.')
	if i < 0 {
		return "*" + f.Import(g.out.ApplyConfiguration(k.Version), k.Version.Name) + "." + m.Input +
			"ApplyConfiguration"
	}
	path := strings.Replace(m.Input[:i], "k8s.io/api/", "k8s.io/client-go/applyconfigurations/", 1)
	return "*" + f.Import(path, path[strings.LastIndexByte(path, '/')+1:]) + "." + m.Input[i+1:] + "ApplyConfiguration"
}

// signature returns the signature of a method other than the verbs.
func (g *generator) signature(f *source.File, k *model.ClientKind, m model.ClientMethod, vars source.Vars) string {
	result := typeOf(f, k, m.Result, vars["T"])
	name := Argument(k.Name) + "Name string, "
	if m.Subresource == "" {
		name = ""
	}
	head := m.Name + "(ctx $context.Context, "
	switch m.Verb {
	case "get":
		return head + Argument(k.Name) + "Name string, opts $metav1.GetOptions) (" + result + ", error)"
	case "list":
		return head + name + "opts $metav1.ListOptions) (" + typeOf(f, k, m.Result, vars["L"]) + ", error)"
	case "patch":
		return head + Argument(k.Name) + "Name string, pt $types_.PatchType, data []byte, opts $metav1.PatchOptions, subresources ...string) (" + result + ", error)"
	case "apply":
		return head + name + "input " + g.applied(f, k, m, vars["A"]) + ", opts $metav1.ApplyOptions) (" + result +
			", error)"
	}
	return head + name + "input " + typeOf(f, k, m.Input, vars["T"]) + ", opts $metav1." +
		map[string]string{"create": "Create", "update": "Update"}[m.Verb] +
		"Options) (" + result + ", error)"
}

// method generates a method other than the verbs.
func (g *generator) method(f *source.File, k *model.ClientKind, m model.ClientMethod, vars source.Vars) {
	result := typeOf(f, k, m.Result, vars["T"])
	if m.Verb == "list" {
		result = typeOf(f, k, m.Result, vars["L"])
	}
	object := Argument(k.Name) + "Name"
	own := m.Subresource == "" && (m.Verb == "update" || m.Verb == "apply")
	verb := map[string]string{"get": "Get()", "list": "Get()", "create": "Post()", "update": "Put()",
		"patch": "Patch(pt)", "apply": "Patch($types_.ApplyPatchType)"}[m.Verb]
	var b strings.Builder
	fmt.Fprintf(&b, "// %s is a %s of %s.\nfunc (c *$private) %s {\n", m.Name, m.Verb,
		strings.TrimSuffix("$resource/"+m.Subresource, "/"), g.signature(f, k, m, vars))
	if m.Verb == "apply" {
		b.WriteString("data, err := $json.Marshal(input)\nif err != nil {\nreturn nil, err\n}\n")
		if own {
			b.WriteString("name := input.GetName()\nif name == nil {\nreturn nil, $fmt.Errorf(\"apply $resource: the name is missing\")\n}\n")
			object = "*name"
		}
	} else if own {
		object = "input.Name"
	}
	fmt.Fprintf(&b, "result := &%s{}\nreq := c.GetClient().%s.\nResource(\"$resource\")",
		strings.TrimPrefix(result, "*"), verb)
	if k.Namespaced {
		b.WriteString(".Namespace(c.GetNamespace())")
	}
	if m.Subresource != "" || m.Verb == "get" || m.Verb == "patch" || own {
		fmt.Fprintf(&b, ".\nName(%s)", object)
	}
	switch {
	case m.Verb == "patch":
		if m.Subresource != "" {
			fmt.Fprintf(&b, ".\nSubResource(append([]string{%q}, subresources...)...)", m.Subresource)
		} else {
			b.WriteString(".\nSubResource(subresources...)")
		}
	case m.Subresource != "":
		fmt.Fprintf(&b, ".\nSubResource(%q)", m.Subresource)
	}
	if m.Verb == "apply" {
		b.WriteString("\npatchOpts := opts.ToPatchOptions()\nreq = req.VersionedParams(&patchOpts, $scheme.ParameterCodec)")
	} else {
		b.WriteString(".\nVersionedParams(&opts, $scheme.ParameterCodec)")
	}
	b.WriteString(map[string]string{"get": "", "list": "", "create": ".\nBody(input)", "update": ".\nBody(input)",
		"patch": ".\nBody(data)", "apply": "\nreq = req.Body(data)"}[m.Verb])
	b.WriteString("\nif err := req.Do(ctx).Into(result); err != nil {\nreturn nil, err\n}\nreturn result, nil\n}\n")
	f.Expand(b.String(), vars)
}
