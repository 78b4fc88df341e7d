package client

import (
	"fmt"
	"path"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/model"
)

// Fakes is the import path of the fake clientset.
func (o Output) Fakes() string { return o.Clientset() + "/fake" }

// typedFakes is the import path of the fake clients of a version.
func (o Output) typedFakes(v *model.ClientVersion) string { return o.Typed(v) + "/fake" }

func (g *generator) fakeClientset(groups []*model.ClientGroup) {
	f := source.New(g.out.Fakes(), "fake")
	var kinds, methods strings.Builder
	for _, group := range groups {
		for _, v := range group.Versions {
			name := group.GoName + v.GoName
			typed, fakes := f.Use(g.out.Typed(v), v.Name, group.Package+v.Name),
				f.Use(g.out.typedFakes(v), "fake", "fake"+group.Package+v.Name)
			fmt.Fprintf(&methods, "\n// %s is the client of %s/%s.\nfunc (c *Clientset) %s() %s.%sInterface { return &%s.Fake%s{Fake: &c.Fake} }\n",
				name, group.Name, v.Name, name, typed, name, fakes, name)
			for _, k := range v.Kinds {
				fmt.Fprintf(&kinds, "{GroupVersionKind: $schema.GroupVersionKind{Group: %q, Version: %q, Kind: %q}, Resource: %q, Namespaced: %t},\n",
					group.Name, v.Name, k.Name, k.Resource, k.Namespaced)
			}
		}
	}
	vars := source.Vars{"versioned": f.Use(g.out.Clientset(), "versioned", "versioned"),
		"scheme": f.Use(g.out.Clientset()+"/scheme", "scheme", "scheme")}
	f.Expand(`// Clientset serves objects from memory and records the requests. The zero value has no objects.
type Clientset struct { $fakes.Clientset }

var (
	_ $versioned.Interface = (*Clientset)(nil)
	_ $clienttesting.FakeClient = (*Clientset)(nil)
)

// AddToScheme adds the types of the clientset to another scheme.
var AddToScheme = $scheme.AddToScheme

var kinds = []$fakes.Kind{
	`+kinds.String()+`}

// NewSimpleClientset returns a clientset with the objects. It does not track field ownership and has no server-side apply.
func NewSimpleClientset(objects ...$runtime.Object) *Clientset {
	c := &Clientset{}
	c.Track($fakes.Config{Scheme: $scheme.Scheme, Decoder: $scheme.Codecs.UniversalDecoder(), Kinds: kinds}, objects...)
	return c
}
`, vars)
	if g.out.Apply {
		vars["all"] = f.Use(g.out.ApplyConfigurations(), "applyconfiguration", "applyconfiguration")
		f.Expand(`
// NewClientset returns a clientset with the objects. It supports server-side apply.
func NewClientset(objects ...$runtime.Object) *Clientset {
	c := &Clientset{}
	c.Track($fakes.Config{
		Scheme: $scheme.Scheme, Decoder: $scheme.Codecs.UniversalDecoder(), Kinds: kinds, Converter: $all.NewTypeConverter($scheme.Scheme),
	}, objects...)
	return c
}
`, vars)
	}
	f.Expand(methods.String(), vars)
	g.add(f, "clientset.go")
}

func (g *generator) fakeVersion(v *model.ClientVersion) {
	name := v.Group.GoName + v.GoName
	f := source.New(g.out.typedFakes(v), "fake")
	typed := f.Use(g.out.Typed(v), v.Name, v.Group.Package+v.Name)
	var methods strings.Builder
	for _, k := range v.Kinds {
		param, arg := "namespace string", "namespace"
		if !k.Namespaced {
			param, arg = "", `""`
		}
		fmt.Fprintf(&methods, "\n// %s is the client of %s.\nfunc (c *Fake%s) %s(%s) %s.%sInterface { return newFake%s(c, %s) }\n",
			k.Plural, k.Resource, name, k.Plural, param, typed, k.Name, k.Plural, arg)
	}
	f.Expand(`// Fake$name is the client of $group/$version.
type Fake$name struct { *$clienttesting.Fake }
$methods
// RESTClient returns nil, since a fake makes no requests.
func (c *Fake$name) RESTClient() $rest.Interface {
	var none *$rest.RESTClient
	return none
}
`, source.Vars{"name": name, "group": v.Group.Name, "version": v.Name, "methods": methods.String()})
	g.add(f, "fake_"+v.Group.Package+"_client.go")
}

// fakeKind generates the fake client of a kind.
func (g *generator) fakeKind(k *model.ClientKind) {
	v := k.Version
	f := source.New(g.out.typedFakes(v), "fake")
	api := f.Use(v.Package.Path, v.Package.Name, v.Group.Package+v.Name)
	typed := f.Use(g.out.Typed(v), v.Name, "typed"+v.Group.Package+v.Name)
	apply := g.out.Apply && (k.Has("apply") || k.Has("applyStatus"))
	vars := source.Vars{
		"Kind": k.Name, "Plural": k.Plural, "resource": k.Resource, "group": v.Group.Name, "version": v.Name,
		"T": "*" + api + "." + k.Name, "L": "*" + api + "." + k.Name + "List",
		"new": "&" + api + "." + k.Name, "arg": Argument(k.Name), "Fake": "Fake" + v.Group.GoName + v.GoName,
		"typed": typed, "A": "", "list": "",
	}
	base, types := "FakeClient", vars["T"]
	if k.HasList {
		base, types = "FakeClientWithList", types+", "+vars["L"]
		vars["list"] = f.Expanded(`func() $L { return ${new}List{} },
			func(dst, src $L) { dst.ListMeta = src.ListMeta },
			func(list $L) []$T { return $gentype.ToPointerSlice(list.Items) },
			func(list $L, items []$T) { list.Items = $gentype.FromPointerSlice(items) },
`, vars)
	}
	if apply {
		vars["A"] = "*" + f.Use(g.out.ApplyConfiguration(v), v.Name, "applyconfiguration"+v.Group.Package+v.Name) +
			"." + k.Name + "ApplyConfiguration"
		base, types = map[bool]string{true: "FakeClientWithListAndApply", false: "FakeClientWithApply"}[k.HasList],
			types+", "+vars["A"]
	}
	vars["base"], vars["types"] = base, types
	f.Expand(`// fake$Plural is the client of $resource.
type fake$Plural struct {
	*$gentype.$base[$types]
	Fake *$Fake
}

func newFake$Plural(fake *$Fake, namespace string) $typed.${Kind}Interface {
	return &fake$Plural{
		$gentype.New$base[$types](
			fake.Fake, namespace,
			$schema.GroupVersionResource{Group: "$group", Version: "$version", Resource: "$resource"},
			$schema.GroupVersionKind{Group: "$group", Version: "$version", Kind: "$Kind"},
			func() $T { return $new{} },
			$list),
		fake,
	}
}
`, vars)
	for _, m := range k.Methods {
		g.fakeMethod(f, k, m, vars)
	}
	g.add(f, path.Join("fake_"+strings.ToLower(k.Name)+".go"))
}

// fakeMethod generates a method other than the verbs. It invokes an action.
func (g *generator) fakeMethod(f *source.File, k *model.ClientKind, m model.ClientMethod, vars source.Vars) {
	result := typeOf(f, k, m.Result, vars["T"])
	if m.Verb == "list" {
		result = typeOf(f, k, m.Result, vars["L"])
	}
	name, own := Argument(k.Name)+"Name", m.Subresource == "" // if the result is the object itself
	where, sub := "c.Resource(), c.Namespace(), ", fmt.Sprintf("%q, ", m.Subresource)
	var b strings.Builder
	fmt.Fprintf(&b, "// %s is a %s of %s.\nfunc (c *fake$Plural) %s {\n", m.Name, m.Verb,
		strings.TrimSuffix("$resource/"+m.Subresource, "/"), g.signature(f, k, m, vars))
	action := ""
	switch m.Verb {
	case "get":
		action = "NewGetSubresourceActionWithOptions(" + where + sub + name + ", opts)"
	case "list":
		action = "NewListActionWithOptions(c.Resource(), c.Kind(), c.Namespace(), opts)"
		if !own {
			action = "NewListSubresourceActionWithOptions(c.Resource(), " + name + ", " + sub +
				"c.Kind(), c.Namespace(), opts)"
		}
	case "create":
		action = "NewCreateActionWithOptions(" + where + "input, opts)"
		if !own {
			action = "NewCreateSubresourceActionWithOptions(c.Resource(), " + name + ", " + sub +
				"c.Namespace(), input, opts)"
		}
	case "update":
		action = "NewUpdateSubresourceActionWithOptions(c.Resource(), " + sub + "c.Namespace(), input, opts)"
	case "patch":
		under := "subresources..."
		if !own {
			under = "append([]string{" + strings.TrimSuffix(sub, ", ") + "}, subresources...)..."
		}
		action = "NewPatchSubresourceActionWithOptions(" + where + name + ", pt, data, opts, " + under + ")"
	case "apply":
		b.WriteString("data, err := $json.Marshal(input)\nif err != nil {\nreturn nil, err\n}\n")
		under := ""
		if own {
			b.WriteString("name := input.GetName()\nif name == nil {\nreturn nil, $fmt.Errorf(\"apply $resource: the name is missing\")\n}\n")
			name = "*name"
		} else {
			under = ", " + strings.TrimSuffix(sub, ", ")
		}
		action = "NewPatchSubresourceActionWithOptions(" + where + name +
			", $types_.ApplyPatchType, data, opts.ToPatchOptions()" + under + ")"
	}
	fmt.Fprintf(&b, "empty := &%s{}\nobj, err := c.Fake.Invokes($clienttesting.%s, empty)\nreturn $fakes.Result(empty, obj, err)\n}\n",
		strings.TrimPrefix(result, "*"), action)
	f.Expand(b.String(), vars)
}
