package crd

import (
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"kelson.dev/apiserver/store"
)

// definitionRevision is one revision of a definition, in the internal type and in v1. It is
// immutable.
type definitionRevision struct {
	revision   uint64
	created    uint64 // the revision that created the definition
	hub        *apiextensions.CustomResourceDefinition
	definition *apiextensionsv1.CustomResourceDefinition

	once   sync.Once
	shared *compiled
}

// newRevision returns a revision with its decoded hub. It keeps hub: the caller must not change it
// afterwards.
func newRevision(hub *apiextensions.CustomResourceDefinition, obj *store.Object) (*definitionRevision, error) {
	r := &definitionRevision{revision: obj.Revision, created: obj.Created, hub: hub,
		definition: &apiextensionsv1.CustomResourceDefinition{}}
	if err := sharedScheme().Convert(hub.DeepCopy(), r.definition, nil); err != nil {
		return nil, fmt.Errorf("convert definition %s: %w", hub.Name, err)
	}
	return r, nil
}

type definitionRevisionKey struct{}

// read returns a stored definition. The object memoizes it, so that only one of all forks of a
// store decodes and compiles it.
func read(obj *store.Object) (*definitionRevision, error) {
	r, err := obj.Memo(definitionRevisionKey{}, func() (any, error) {
		hub, err := sharedCodec().Load(obj.Data)
		if err != nil {
			return nil, err
		}
		return newRevision(hub.(*apiextensions.CustomResourceDefinition), obj)
	})
	if err != nil {
		return nil, err
	}
	return r.(*definitionRevision), nil
}

// compile compiles the spec. All control planes with fast paths share the result, unless a webhook
// converts the objects: connections belong to one control plane.
func (r *definitionRevision) compile(d *Definitions) *compiled {
	if d.noFastPaths {
		return compile(d, r.definition, r.revision)
	}
	if c := r.definition.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
		return compile(d, r.definition, r.revision)
	}
	r.once.Do(func() { r.shared = compile(nil, r.definition, r.revision) })
	return r.shared
}
