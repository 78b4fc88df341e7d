package conversion

import (
	"fmt"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// fromValues returns the types of the package that are converted from the queries of requests.
func fromValues(p *model.Package) (list []*model.Type) {
	for _, t := range p.Types {
		if t.Markers.Has(explicitMarker) {
			list = append(list, t)
		}
	}
	return list
}

// values generates the conversion of a query to a type. It returns the statements that register it.
func (g *generator) values(t *model.Type) string {
	if m := t.Markers.Get(explicitMarker); m.Text() != "net/url.Values" {
		g.errs = append(g.errs, loader.Errorf(m.Pos, "+%s: only net/url.Values is supported", explicitMarker))
		return ""
	}
	name := "Convert_url_Values_To_" + inName(t.Type())
	vars := source.Vars{"name": name, "T": t.Name}
	if !g.Package.Declares(name) {
		var body strings.Builder
		for _, f := range t.Fields {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Embedded || key == "" || key == "-" {
				continue
			}
			function := g.fromStrings(f.Type())
			if function == "" {
				g.errs = append(g.errs, loader.Errorf(f.Pos(),
					"%s.%s: []string does not convert to %s by itself; write %s in package %s",
					t.Name, f.Name, short(f.Type()), name, g.Package.Name))
				continue
			}
			fmt.Fprintf(&body, "if values := (*in)[%q]; len(values) > 0 {\nif err := %s(&values, &out.%s, s); err != nil {\nreturn err\n}\n} else {\nout.%[3]s = *new(%s)\n}\n",
				key, function, f.Name, g.Type(f.Type()))
		}
		vars["body"] = body.String()
		g.Expand(`// $name converts the query of a request.
func $name(in *$url.Values, out *$T, s $conversion.Scope) error {
${body}return nil
}
`, vars)
	}
	return g.Expanded(`if err := s.AddGeneratedConversionFunc((*$url.Values)(nil), (*$T)(nil), func(a, b any, scope $conversion.Scope) error {
return $name(a.(*$url.Values), b.(*$T), scope)
}); err != nil {
return err
}
`, vars)
}

// fromStrings returns the function that converts the values of a key: a hand-written one, or one of
// Kubernetes.
func (g *generator) fromStrings(to loader.Type) string {
	from := &loader.Slice{Elem: &loader.Basic{Name: "string"}}
	name := g.function(from, to)
	if f := g.byHand(from, to, g.own()...); f != nil {
		return g.Qualified(f.Pkg.Path, f.Pkg.Name, name)
	}
	switch t := to.String(); {
	case slices.Contains([]string{"string", "int", "bool", "*bool", "int64", "*int64"}, t):
		return g.Expanded("$runtime.", nil) + name
	case t == "[]int32", slices.Contains([]string{"Time", "IncludeObjectPolicy", "ResourceVersionMatch"},
		strings.TrimPrefix(t, metaPath+".")),
		slices.Contains([]string{"Time", "DeletionPropagation"}, strings.TrimPrefix(t, "*"+metaPath+".")):
		return g.Expanded("$metav1.", nil) + name
	}
	return ""
}
