package rest

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/tree"
)

// mergedStatus returns the hub that results from a strategic merge patch that changes only the
// status of an object, as the reports of kubelets do. It merges and converts the status alone,
// instead of the whole object. ok is false if the patch changes something else or causes errors or
// warnings, which merged then reports.
func (p *patcher) mergedStatus(old runtime.Object, current *store.Object) (hub runtime.Object, ok bool) {
	if p.s.h.noFastPaths || p.kind != types.StrategicMergePatchType || p.view != nil || p.s.on.info.Subresource != "status" ||
		p.s.on.version != p.s.on.res.StorageVersion || !verbatim(p.s.on.res, current, false) {
		return nil, false
	}
	stored := current.Member("status")
	if mayBeSlow(len(stored) + len(p.body)) {
		return nil, false
	}
	patch, ok := p.statusPatch(current)
	if !ok {
		return nil, false
	}
	object := map[string]any{}
	if stored != nil {
		status, err := tree.Parse(stored, nil)
		if err != nil {
			return nil, false
		}
		object["status"] = status
	}
	merged, err := mergeStrategically(object, patch, p.patchMeta())
	if err != nil {
		return nil, false
	}
	if codec, ok := p.s.on.res.Codec.(resource.Affordable); ok && codec.CheckTree(merged, p.s.on.res.GVK(p.s.on.version)) != nil {
		return nil, false
	}
	part, ok := p.typed(merged)
	if !ok {
		return nil, false
	}
	versioned, err := p.s.on.res.Codec.ToVersion(old, p.s.on.version) // a copy
	if err != nil || !setStatus(versioned, part) {
		return nil, false
	}
	hub, err = p.fromVersion(versioned)
	return hub, err == nil
}

// typed returns an object of the storage version that has the status of a tree and nothing else. A
// codec that decodes stored bytes does so with the encoded tree, which allocates less than the
// conversion of the tree. ok is false for a tree with fields that the type lacks.
func (p *patcher) typed(merged map[string]any) (part runtime.Object, ok bool) {
	if codec, ok := p.s.on.res.Codec.(resource.Direct); ok {
		merged["apiVersion"], merged["kind"] = p.s.on.res.GVK(p.s.on.version).ToAPIVersionAndKind()
		data, err := tree.Append(nil, merged, nil)
		if err != nil {
			return nil, false
		}
		return codec.Stored(data)
	}
	part, err := p.s.on.empty()
	if err != nil {
		return nil, false
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, part, true)
	return part, err == nil
}

// statusPatch returns the patch without its metadata, if it has only a status and the uid of the
// current object.
func (p *patcher) statusPatch(current *store.Object) (map[string]any, bool) {
	patch, err := tree.Parse(p.body, nil)
	if err != nil {
		return nil, false
	}
	if metadata, has := patch["metadata"]; has {
		fields, isMap := metadata.(map[string]any)
		if !isMap || len(fields) != 1 || fields["uid"] != string(current.Head.UID) {
			return nil, false
		}
		delete(patch, "metadata")
	}
	_, isMap := patch["status"].(map[string]any)
	return patch, isMap && len(patch) == 1
}

// setStatus sets the status of an object to that of another. It returns false if they do not have
// one type with a status.
func setStatus(into, from runtime.Object) bool {
	to, of := reflect.Indirect(reflect.ValueOf(into)), reflect.Indirect(reflect.ValueOf(from))
	if to.Kind() != reflect.Struct || to.Type() != of.Type() {
		return false
	}
	status := to.FieldByName("Status")
	if !status.IsValid() {
		return false
	}
	status.Set(of.FieldByName("Status"))
	return true
}
