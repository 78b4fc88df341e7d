package applyconfiguration

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	merge "sigs.k8s.io/structured-merge-diff/v6/schema"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/model"
)

// parserPath returns the import path of the package with the schemas.
func (g *generator) parserPath() string { return g.Output.ApplyConfigurations() + "/internal" }

// modelName returns the name of a kind's schema, as runtime.Scheme does.
func (g *generator) modelName(p *model.Package, t *model.Type) string {
	prefix := p.Path
	if m := t.Markers.Get("k8s:openapi-model-package"); m != nil {
		return m.Text() + "." + t.Name
	} else if m := p.Markers.Get("k8s:openapi-model-package"); m != nil {
		return m.Text() + "." + t.Name
	}
	return util.ToRESTFriendlyName(prefix + "." + t.Name)
}

// learn adds the schema of a kind's CustomResourceDefinition, with which a server tracks field
// ownership. A kind without a schema gets no Extract functions.
func (g *generator) learn(p *model.Package, t *model.Type) error {
	props, err := g.crds.Schema(t)
	if err != nil {
		return fmt.Errorf("%s has no Extract functions, because it has no schema: %w", t.Name, err)
	}
	root, err := openapiSchema(props)
	if err != nil {
		return fmt.Errorf("%s has no Extract functions, because it has no schema: %w", t.Name, err)
	}
	name := g.modelName(p, t)
	g.models[name] = root
	queue := []*spec.Schema{root}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		each(s, func(ref string) {
			if other, ok := metaDefinitions()[ref]; ok && g.models[ref] == nil {
				g.models[ref] = &other.Schema
				queue = append(queue, g.models[ref])
			}
		})
	}
	g.extracts[t.Decl] = name
	return nil
}

// each calls f with the names of the schemas to which s refers.
func each(s *spec.Schema, f func(string)) {
	if s == nil {
		return
	}
	if ref := s.Ref.String(); ref != "" {
		f(ref[strings.LastIndexByte(ref, '/')+1:])
	}
	for _, p := range s.Properties {
		each(&p, f)
	}
	for _, list := range [][]spec.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			each(&list[i], f)
		}
	}
	if s.Items != nil {
		each(s.Items.Schema, f)
	}
	if s.AdditionalProperties != nil {
		each(s.AdditionalProperties.Schema, f)
	}
}

// parser generates the package with the schemas. The code imports no package of
// structured-merge-diff, whose major version is that of k8s.io/apimachinery in the project: it
// compiles with all of them.
func (g *generator) parser() ([]byte, error) {
	schema, err := schemaconv.ToSchemaFromOpenAPI(g.models, false)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(schema.Types, func(a, b merge.TypeDef) int { return strings.Compare(a.Name, b.Name) })
	for i := range schema.Types {
		sortFields(&schema.Types[i].Atom)
	}
	var text strings.Builder
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(map[string]any{"schema": schema}); err != nil {
		return nil, err
	}
	f := source.New(g.parserPath(), "internal")
	f.Expand(`// Parser returns the schemas of the kinds, as the type of structured-merge-diff that managedfields uses. Its import path
// differs between releases of k8s.io/apimachinery, so the compiler infers the type.
var Parser = parserFor($managedfields.NewSchemeTypeConverter)

func parserFor[P any](func(*$runtime.Scheme, *P) $managedfields.TypeConverter) func() *P {
	return $sync.OnceValue(func() *P {
		parser := new(P)
		if err := $yaml.UnmarshalStrict([]byte(schema), parser); err != nil {
			panic($fmt.Sprintf("parse the schemas: %v", err))
		}
		return parser
	})
}

// schema is a typed.Parser, whose schema determines how the fields of the kinds merge.
const schema = $text
`, source.Vars{"text": "`" + strings.ReplaceAll(text.String(), "`", "` + \"`\" + `") + "`"})
	return f.Bytes(source.Options{Header: g.Output.Header})
}

// sortFields sorts a type's fields.
func sortFields(a *merge.Atom) {
	if a.List != nil {
		sortFields(&a.List.ElementType.Inlined)
	}
	if a.Map != nil {
		sortFields(&a.Map.ElementType.Inlined)
		for i := range a.Map.Fields {
			sortFields(&a.Map.Fields[i].Type.Inlined)
		}
		sort.Slice(a.Map.Fields, func(i, j int) bool { return a.Map.Fields[i].Name < a.Map.Fields[j].Name })
	}
}

// kinds generates ForKind and NewTypeConverter, which cover all kinds.
func (g *generator) kinds() ([]byte, error) {
	f := source.New(g.Output.ApplyConfigurations(), "applyconfiguration")
	var cases strings.Builder
	for _, d := range g.written {
		p := g.local[d.Pkg.Path]
		if !p.HasAPI {
			continue
		}
		out := g.outputOf(d.Pkg)
		pkg := f.Use(out, p.Name, strings.ReplaceAll(out[strings.LastIndexByte(strings.TrimSuffix(out, "/"+p.Version),
			'/')+1:], "/", ""))
		fmt.Fprintf(&cases, "case $schema.GroupVersionKind{Group: %q, Version: %q, Kind: %q}:\nreturn &%s.%sApplyConfiguration{}\n", p.Group, p.Version, d.Name, pkg, d.Name)
	}
	f.Expand(`// ForKind returns an empty apply configuration of a kind, or of a struct of its group and version, or nil.
func ForKind(kind $schema.GroupVersionKind) any {
	switch kind {
	`+cases.String()+`}
	return nil
}

// NewTypeConverter returns a converter that tracks field ownership of the kinds, for fake clientsets.
func NewTypeConverter(scheme *$runtime.Scheme) $managedfields.TypeConverter {
	return $managedfields.NewSchemeTypeConverter(scheme, $internal.Parser())
}
`, source.Vars{"internal": f.Use(g.parserPath(), "internal", "internal")})
	return f.Bytes(source.Options{Header: g.Output.Header})
}
