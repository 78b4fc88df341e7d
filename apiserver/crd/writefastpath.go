package crd

import (
	"context"
	"maps"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/fastpath/trees"
	"kelson.dev/apiserver/fastpath/validity"
	"kelson.dev/apiserver/resource"
)

// To prepare and validate a write, the library converts the metadata from a map to its Go type
// several times and copies the other parts. But most writes have metadata that is certainly valid,
// and this file prepares those writes on the maps. The library handles all other writes and returns
// all errors.

var _ resource.Shortcut = (*strategy)(nil)

// write is a write of an object that the strategy may prepare on the maps.
type write struct {
	*unstructured.Unstructured
	metadata map[string]any
	rules    *rules
}

// writeOf returns the write of a hub. ok is false if the library must prepare it.
func (s *strategy) writeOf(ctx context.Context, hub runtime.Object) (w write, ok bool) {
	if w.Unstructured, ok = hub.(*unstructured.Unstructured); !ok || s.noFastPaths || !s.hasKind(w.Unstructured) {
		return w, false
	}
	if w.metadata, ok = w.Object["metadata"].(map[string]any); !ok || !s.inRequestNamespace(ctx, w.metadata) {
		return w, false
	}
	var err error
	w.rules, err = s.rules()
	return w, err == nil
}

// BeforeCreate implements [resource.Shortcut].
func (s *strategy) BeforeCreate(ctx context.Context, hub runtime.Object) (errs field.ErrorList, done bool) {
	w, ok := s.writeOf(ctx, hub)
	if !ok || s.status || !validity.Metadata(w.metadata, s.fields) {
		return nil, false
	}
	if s.versions[s.hub].hasStatus() {
		delete(w.Object, "status")
	}
	w.metadata["generation"] = int64(1)
	if w.rules.certain(w.Object) {
		return nil, true
	}
	return w.rules.main.Validate(ctx, hub), true
}

// hasKind reports whether an object has the apiVersion and kind of the strategy.
func (s *strategy) hasKind(u *unstructured.Unstructured) bool {
	kind, version := u.Object["kind"], u.Object["apiVersion"]
	gvk := s.gvk(s.hub)
	return kind == gvk.Kind && version == gvk.GroupVersion().String()
}

// inRequestNamespace reports whether an object is in the namespace of the request, or in none if
// the kind is cluster-scoped.
func (s *strategy) inRequestNamespace(ctx context.Context, metadata map[string]any) bool {
	namespace, set := metadata["namespace"]
	if !s.namespaced {
		return !set
	}
	requested, ok := request.NamespaceFrom(ctx)
	return ok && requested != "" && namespace == requested
}

// BeforeUpdate implements [resource.Shortcut].
func (s *strategy) BeforeUpdate(ctx context.Context, hub, old runtime.Object) (errs field.ErrorList, done bool) {
	w, ok := s.writeOf(ctx, hub)
	if !ok {
		return nil, false
	}
	was, ok := old.(*unstructured.Unstructured)
	if !ok || !s.hasKind(was) {
		return nil, false
	}
	before, ok := was.Object["metadata"].(map[string]any)
	if !ok {
		return nil, false
	}
	generation, ok := before["generation"].(int64)
	if !ok || generation < 1 {
		return nil, false
	}
	if s.status {
		return s.beforeStatus(ctx, w, was, before)
	}
	if !validity.MetadataChange(w.metadata, before, s.fields) {
		return nil, false
	}
	if s.versions[s.hub].hasStatus() {
		if status, ok := was.Object["status"]; ok {
			w.Object["status"] = status
		} else {
			delete(w.Object, "status")
		}
	}
	w.metadata["uid"], w.metadata["creationTimestamp"] = before["uid"], before["creationTimestamp"]
	w.metadata["generation"] = generation
	if !trees.SameContent(w.Object, was.Object) {
		w.metadata["generation"] = generation + 1
	}
	if w.rules.certain(w.Object) {
		return nil, true
	}
	return w.rules.main.ValidateUpdate(ctx, hub, was), true
}

// beforeStatus prepares a write of the status: it may change only the status and managedFields.
func (s *strategy) beforeStatus(ctx context.Context, w write, was *unstructured.Unstructured,
	before map[string]any) (field.ErrorList, bool) {
	owners, owned := w.metadata["managedFields"]
	if owned && !validity.ManagedFields(owners, s.fields) {
		return nil, false
	}
	status, has := w.Object["status"]
	w.Object = maps.Clone(was.Object)
	delete(w.Object, "status")
	if has {
		w.Object["status"] = status
	}
	metadata := maps.Clone(before)
	delete(metadata, "managedFields")
	if owned {
		metadata["managedFields"] = owners
	}
	w.Object["metadata"] = metadata
	if w.rules.certainStatus(status, has, w.Object) {
		return nil, true
	}
	return w.rules.status.ValidateUpdate(ctx, w.Unstructured, was), true
}

// certain reports whether an object is certainly valid.
func (r *rules) certain(object map[string]any) bool {
	return r.plain && r.work.check(object) == nil && r.schema.Valid(object) && r.validLists(object)
}

// certainStatus reports whether a status, if the object has one, is certainly valid.
func (r *rules) certainStatus(status any, has bool, object map[string]any) bool {
	checked := !has || r.statusSchema == nil && !r.statusChecked ||
		r.statusWork.check(status) == nil && r.statusSchema.Valid(status)
	return r.plain && checked && r.validLists(object)
}

// validLists reports whether sets have no duplicate elements and lists with keys no duplicate keys.
func (r *rules) validLists(object map[string]any) bool {
	return r.lists.Valid(object) || len(listtype.ValidateListSetsAndMaps(nil, r.structural, object)) == 0
}
