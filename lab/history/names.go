package history

import (
	"cmp"
	"encoding/json"
	"strings"

	"kelson.dev/apiserver/store"
)

const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// names describes the resources of a control plane.
type names struct {
	describe func(resource string) (Resource, bool) // may be nil
	custom   map[string]Resource                    // from CustomResourceDefinitions
}

// learn adds the names of a custom resource if an object defines one.
func (n *names) learn(key Key, data []byte) {
	if key.Resource != definitions || data == nil {
		return
	}
	var crd struct {
		Spec struct {
			Group, Scope string
			Names        struct {
				Plural, Singular, Kind string
				ShortNames             []string
			}
		}
	}
	if json.Unmarshal(data, &crd) != nil {
		return // the names of its objects are derived from one of them
	}
	r := Resource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural, Kind: crd.Spec.Names.Kind,
		Namespaced: crd.Spec.Scope == "Namespaced",
		Singular:   cmp.Or(crd.Spec.Names.Singular, strings.ToLower(crd.Spec.Names.Kind)),
		ShortNames: crd.Spec.Names.ShortNames}
	n.custom[r.Name()] = r
}

// resource returns the Resource of an object.
func (n *names) resource(rec store.Record) Resource {
	plural, group, _ := strings.Cut(rec.Key.Resource, ".")
	var obj struct{ APIVersion, Kind string }
	_ = json.Unmarshal(rec.Data, &obj) // if this fails, apiVersion and kind stay empty
	version := obj.APIVersion[strings.LastIndex(obj.APIVersion, "/")+1:]
	found, ok := n.custom[rec.Key.Resource]
	if !ok && n.describe != nil {
		found, ok = n.describe(rec.Key.Resource)
	}
	if !ok {
		found = Resource{Group: group, Resource: plural, Kind: obj.Kind, Singular: strings.ToLower(obj.Kind),
			Namespaced: rec.Key.Namespace != ""}
	}
	found.Version = cmp.Or(version, found.Version)
	return found
}
