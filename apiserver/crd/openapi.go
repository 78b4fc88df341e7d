package crd

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// OpenAPIHashes returns a hash of the definitions in every served group version.
func (d *Definitions) OpenAPIHashes() map[schema.GroupVersion]string {
	in := map[schema.GroupVersion][]*kind{}
	d.mu.Lock()
	for _, k := range d.kinds {
		for _, v := range k.resource.Versions {
			gv := schema.GroupVersion{Group: k.group, Version: v.Name}
			in[gv] = append(in[gv], k)
		}
	}
	d.mu.Unlock()
	out := make(map[schema.GroupVersion]string, len(in))
	for gv, kinds := range in {
		sortKinds(kinds)
		sum := sha256.New()
		for _, k := range kinds {
			// The names of a spec may be accepted later.
			fmt.Fprintf(sum, "%s %d %v\n", k.definition.UID, k.definition.Generation, k.definition.Status.AcceptedNames)
		}
		out[gv] = fmt.Sprintf("%X", sum.Sum(nil))
	}
	return out
}

// OpenAPIV3 returns the OpenAPI v3 document of a group version.
func (d *Definitions) OpenAPIV3(gv schema.GroupVersion) (*spec3.OpenAPI, error) {
	var specs []*spec3.OpenAPI
	for _, k := range d.kindsIn(gv) {
		s, err := builder.BuildOpenAPIV3(k.definition, gv.Version, builder.Options{IncludeSelectableFields: true})
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", k.definition.Name, err)
		}
		specs = append(specs, s)
	}
	merged, err := builder.MergeSpecsV3(specs...)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", gv, err)
	}
	return merged, nil
}

// OpenAPIV2 returns the part of a group version in the OpenAPI v2 document.
func (d *Definitions) OpenAPIV2(gv schema.GroupVersion) (*spec.Swagger, error) {
	out := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Paths: &spec.Paths{Paths: map[string]spec.PathItem{}}, Definitions: spec.Definitions{},
		Parameters: map[string]spec.Parameter{},
	}}
	for _, k := range d.kindsIn(gv) {
		s, err := builder.BuildOpenAPIV2(k.definition, gv.Version,
			builder.Options{V2: true, IncludeSelectableFields: true})
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", k.definition.Name, err)
		}
		for name, definition := range handler.PruneDefaults(s.Definitions) {
			out.Definitions[name] = definition
		}
		for name, parameter := range s.Parameters {
			out.Parameters[name] = parameter
		}
		for path, item := range s.Paths.Paths {
			out.Paths.Paths[path] = item
		}
	}
	return out, nil
}

// kindsIn returns the kinds served in a group version, sorted by name.
func (d *Definitions) kindsIn(gv schema.GroupVersion) []*kind {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*kind
	for _, k := range d.kinds {
		if _, ok := k.resource.Serves(gv.Version); ok && k.group == gv.Group {
			out = append(out, k)
		}
	}
	sortKinds(out)
	return out
}

func sortKinds(kinds []*kind) {
	slices.SortFunc(kinds, func(a, b *kind) int { return cmp.Compare(a.definition.Name, b.definition.Name) })
}
