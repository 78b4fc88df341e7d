package crd

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"

	"kelson.dev/apiserver/resource"
)

// subresources returns the subresources that at least one version has, for hubs in the version hub.
func (k *kind) subresources(hub string) []resource.Subresource {
	var status, scale []string
	for _, spec := range k.definition.Spec.Versions {
		v := k.versions[spec.Name]
		if v.hasStatus() {
			status = append(status, spec.Name)
		}
		if v.scale() != nil {
			scale = append(scale, spec.Name)
		}
	}
	var out []resource.Subresource
	if status != nil {
		out = append(out, resource.Subresource{
			Name: "status", Versions: status,
			Update: &resource.UpdateView{Strategy: &strategy{compiled: k.compiled, hub: hub, status: true}},
		})
	}
	if scale != nil {
		out = append(out, k.scaleSubresource(hub, scale))
	}
	return out
}

// fieldLabel checks the label of a field selector.
func (c *compiled) fieldLabel(version, label, value string) (string, string, error) {
	switch {
	case label == "metadata.name", label == "metadata.namespace" && c.namespaced:
		return label, value, nil
	}
	if v, err := c.version(version); err == nil {
		named := func(f string) bool { return f == label }
		if slices.ContainsFunc(v.selectableNames(), named) {
			return label, value, nil
		}
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

func (v *version) selectableNames() []string {
	var out []string
	for _, f := range v.spec.SelectableFields {
		out = append(out, strings.TrimPrefix(f.JSONPath, "."))
	}
	return out
}

// selectable returns a function for the values of the fields that the version declares selectable;
// nil if it declares none.
func (v *version) selectable() func(runtime.Object) fields.Set {
	paths := map[string]*jsonpath.JSONPath{}
	for i, name := range v.selectableNames() {
		path := jsonpath.New("selectableField").AllowMissingKeys(true)
		if path.Parse("{"+v.spec.SelectableFields[i].JSONPath+"}") == nil {
			paths[name] = path
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return func(hub runtime.Object) fields.Set {
		set := make(fields.Set, len(paths))
		for name, path := range paths {
			set[name] = ""
			found, err := path.FindResults(hub.(*unstructured.Unstructured).Object)
			if err == nil && len(found) == 1 && len(found[0]) == 1 && found[0][0].Interface() != nil {
				set[name] = fmt.Sprint(found[0][0].Interface())
			}
		}
		return set
	}
}
