package crd

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
	"kelson.dev/operator/tree"
)

// The library prepares and validates a write on the Go type of metadata, to which it converts the
// maps several times, and on copies of the other parts. The metadata of most writes is certainly
// valid. This file prepares those writes on the maps. All other writes, and all errors, are left to
// the library.

var _ resource.Shortcut = (*strategy)(nil)

// BeforeCreate implements [resource.Shortcut].
func (s *strategy) BeforeCreate(ctx context.Context, hub runtime.Object) (errs field.ErrorList, done bool) {
	u, ok := hub.(*unstructured.Unstructured)
	if !ok || s.noFastPaths || s.status || !s.named(u) {
		return nil, false
	}
	r, err := s.rules()
	if err != nil {
		return nil, false
	}
	metadata, ok := u.Object["metadata"].(map[string]any)
	if !ok || !s.sound(ctx, metadata) {
		return nil, false
	}
	if s.versions[s.hub].hasStatus() {
		delete(u.Object, "status")
	}
	metadata["generation"] = int64(1)
	if r.certain(u.Object) {
		return nil, true
	}
	return r.main.Validate(ctx, hub), true
}

// sound reports whether the metadata of a new object is certainly valid.
func (s *strategy) sound(ctx context.Context, metadata map[string]any) bool {
	if !s.placed(ctx, metadata) || metadata["uid"] == nil || metadata["creationTimestamp"] == nil {
		return false
	}
	for name, value := range metadata {
		switch name {
		case "name":
			if word, ok := value.(string); !ok || len(apivalidation.NameIsDNSSubdomain(word, false)) > 0 {
				return false
			}
		case "namespace":
			if word, ok := value.(string); !ok || len(apivalidation.ValidateNamespaceName(word, false)) > 0 {
				return false
			}
		case "uid", "creationTimestamp":
			if word, ok := value.(string); !ok || word == "" {
				return false
			}
		case "generation", "resourceVersion":
		case "labels", "annotations":
			if !soundWords(name, value) {
				return false
			}
		case "managedFields":
			if !s.soundOwners(value) {
				return false
			}
		default:
			return false
		}
	}
	return metadata["name"] != nil
}

// named reports whether an object has the apiVersion and kind of the strategy.
func (s *strategy) named(u *unstructured.Unstructured) bool {
	kind, version := u.Object["kind"], u.Object["apiVersion"]
	gvk := s.gvk(s.hub)
	return kind == gvk.Kind && version == gvk.GroupVersion().String()
}

// placed reports whether an object is in the namespace of the request, or in none if the kind is
// cluster-scoped.
func (s *strategy) placed(ctx context.Context, metadata map[string]any) bool {
	namespace, set := metadata["namespace"]
	if !s.namespaced {
		return !set
	}
	requested, ok := request.NamespaceFrom(ctx)
	return ok && requested != "" && namespace == requested
}

func soundWords(name string, value any) bool {
	words, ok := value.(map[string]any)
	if !ok {
		return false
	}
	typed := make(map[string]string, len(words))
	for key, value := range words {
		if typed[key], ok = value.(string); !ok {
			return false
		}
	}
	path := field.NewPath("metadata", name)
	if name == "labels" {
		return len(metavalidation.ValidateLabels(typed, path)) == 0
	}
	return len(apivalidation.ValidateAnnotations(typed, path)) == 0
}

// soundOwners reports whether managedFields have the form that this server writes.
func (s *strategy) soundOwners(value any) bool {
	list, ok := value.([]any)
	if !ok {
		return false
	}
	for _, entry := range list {
		if !s.fields.Exact(entry) {
			return false
		}
		fields := entry.(map[string]any)
		manager, _ := fields["manager"].(string)
		subresource, _ := fields["subresource"].(string)
		operation := fields["operation"]
		if fields["fieldsType"] != "FieldsV1" || operation != "Apply" && operation != "Update" || fields["apiVersion"] == nil ||
			!plainWord(manager, metavalidation.FieldManagerMaxLength) || subresource != "" && !plainWord(subresource, metavalidation.MaxSubresourceNameLength) {
			return false
		}
	}
	return true
}

func plainWord(word string, most int) bool {
	for i := range len(word) {
		if word[i] < ' ' || word[i] >= 0x7f {
			return false
		}
	}
	return len(word) > 0 && len(word) <= most
}

// BeforeUpdate implements [resource.Shortcut].
func (s *strategy) BeforeUpdate(ctx context.Context, hub, old runtime.Object) (errs field.ErrorList, done bool) {
	next, ok := hub.(*unstructured.Unstructured)
	if !ok || s.noFastPaths || !s.named(next) {
		return nil, false
	}
	was, ok := old.(*unstructured.Unstructured)
	if !ok || !s.named(was) {
		return nil, false
	}
	r, err := s.rules()
	if err != nil {
		return nil, false
	}
	metadata, ok := next.Object["metadata"].(map[string]any)
	if !ok || !s.placed(ctx, metadata) {
		return nil, false
	}
	before, ok := was.Object["metadata"].(map[string]any)
	if !ok {
		return nil, false
	}
	if generation, ok := before["generation"].(int64); !ok || generation < 1 {
		return nil, false
	}
	if s.status {
		return s.beforeStatus(ctx, r, next, was, metadata, before)
	}
	if !s.soundChange(metadata, before) {
		return nil, false
	}
	if s.versions[s.hub].hasStatus() {
		if status, ok := was.Object["status"]; ok {
			next.Object["status"] = status
		} else {
			delete(next.Object, "status")
		}
	}
	metadata["uid"], metadata["creationTimestamp"] = before["uid"], before["creationTimestamp"]
	metadata["generation"] = before["generation"]
	if !sameContent(next.Object, was.Object) {
		metadata["generation"] = before["generation"].(int64) + 1
	}
	if r.certain(next.Object) {
		return nil, true
	}
	return r.main.ValidateUpdate(ctx, next, was), true
}

// beforeStatus prepares a write of the status: it may change only the status and managedFields.
func (s *strategy) beforeStatus(ctx context.Context, r *rules, next, was *unstructured.Unstructured, metadata, before map[string]any) (field.ErrorList, bool) {
	owners, owned := metadata["managedFields"]
	if owned && !s.soundOwners(owners) {
		return nil, false
	}
	status, has := next.Object["status"]
	next.Object = maps.Clone(was.Object)
	delete(next.Object, "status")
	if has {
		next.Object["status"] = status
	}
	metadata = maps.Clone(before)
	delete(metadata, "managedFields")
	if owned {
		metadata["managedFields"] = owners
	}
	next.Object["metadata"] = metadata
	if r.certainStatus(status, has, next.Object) {
		return nil, true
	}
	return r.status.ValidateUpdate(ctx, next, was), true
}

// soundChange reports whether an update of valid metadata is certainly valid.
func (s *strategy) soundChange(next, was map[string]any) bool {
	if was["uid"] == nil || was["creationTimestamp"] == nil {
		return false
	}
	for name, value := range next {
		switch name {
		case "creationTimestamp", "generation", "resourceVersion":
		case "name", "namespace", "uid", "ownerReferences", "generateName":
			if !tree.Same(value, was[name]) {
				return false
			}
		case "finalizers":
			if !fewer(value, was[name]) {
				return false
			}
		case "labels", "annotations":
			if !tree.Same(value, was[name]) && !soundWords(name, value) {
				return false
			}
		case "managedFields":
			if !s.soundOwners(value) {
				return false
			}
		default:
			return false
		}
	}
	for name := range was {
		switch name {
		case "creationTimestamp", "generation", "resourceVersion", "uid", "labels", "annotations", "managedFields", "finalizers":
		default:
			if _, ok := next[name]; !ok {
				return false
			}
		}
	}
	return true
}

// fewer reports whether all elements of a list were in it before.
func fewer(next, was any) bool {
	a, ok := next.([]any)
	if !ok {
		return false
	}
	b, ok := was.([]any)
	if !ok {
		return false
	}
	for _, element := range a {
		word, ok := element.(string)
		if !ok || !slices.ContainsFunc(b, func(old any) bool { return old == word }) {
			return false
		}
	}
	return true
}

// sameContent reports whether two objects are equal except for metadata, as the library compares
// them.
func sameContent(next, was map[string]any) bool {
	same, differ := len(next) == len(was), len(next) != len(was)
	for name, value := range next {
		if name == "metadata" {
			continue
		}
		old, ok := was[name]
		if !ok || tree.Differ(value, old) {
			differ = true
			break
		}
		same = same && tree.Same(value, old)
	}
	if same || differ {
		return !differ
	}
	a, b := maps.Clone(next), maps.Clone(was)
	delete(a, "metadata")
	delete(b, "metadata")
	return equality.Semantic.DeepEqual(a, b)
}

// certain reports whether an object is certainly valid.
func (r *rules) certain(object map[string]any) bool {
	return r.plain && r.patterns.check(object) == nil && r.schema.Valid(object) && r.listed(object)
}

// certainStatus reports whether a status, if the object has one, is certainly valid.
func (r *rules) certainStatus(status any, has bool, object map[string]any) bool {
	checked := !has || r.statusSchema == nil && !r.statusChecked || r.statusPatterns.check(status) == nil && r.statusSchema.Valid(status)
	return r.plain && checked && r.listed(object)
}

// listed reports whether sets have no duplicate elements and lists with keys no duplicate keys.
func (r *rules) listed(object map[string]any) bool {
	return r.lists.Valid(object) || len(listtype.ValidateListSetsAndMaps(nil, r.structural, object)) == 0
}
