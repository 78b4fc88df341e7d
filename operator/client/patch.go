package client

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// RawPatch returns a patch with the given type and content.
func RawPatch(kind types.PatchType, data []byte) Patch { return rawPatch{kind, data} }

type rawPatch struct {
	kind types.PatchType
	data []byte
}

func (p rawPatch) Type() types.PatchType       { return p.kind }
func (p rawPatch) Data(Object) ([]byte, error) { return p.data, nil }

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	Op    string // "add", "remove", "replace", "move", "copy", "test"
	Path  string
	From  string // of move and copy
	Value any    // of add, replace and test
}

// MarshalJSON encodes the members that the operation requires; a value may be null.
func (o Operation) MarshalJSON() ([]byte, error) {
	m := map[string]any{"op": o.Op, "path": o.Path}
	switch o.Op {
	case "move", "copy":
		m["from"] = o.From
	case "add", "replace", "test":
		m["value"] = o.Value
	}
	return json.Marshal(m)
}

// JSONPatch is a list of operations, which the server applies all or none.
func JSONPatch(ops ...Operation) Patch { return jsonPatch(ops) }

type jsonPatch []Operation

func (jsonPatch) Type() types.PatchType         { return types.JSONPatchType }
func (p jsonPatch) Data(Object) ([]byte, error) { return json.Marshal([]Operation(p)) }

// PatchOption configures MergeFrom and DiffFrom.
type PatchOption interface{ applyPatch(*diffPatch) }

type optimisticLock bool

func (l optimisticLock) applyPatch(p *diffPatch) { p.lock = bool(l) }

// OptimisticLock makes a patch fail with 409 Conflict if the object has changed since it was read.
// The object must have a resourceVersion, otherwise the patch fails with [ErrNoVersion].
const OptimisticLock = optimisticLock(true)

// MergeFrom returns a JSON merge patch (RFC 7386) of the changes made to obj after the call:
//
//	patch := client.MergeFrom(pod)
//	pod.Labels["seen"] = "yes"
//	err := c.Patch(ctx, pod, patch)
//
// A changed list is replaced as a whole: consider OptimisticLock.
func MergeFrom(obj Object, opts ...PatchOption) Patch {
	return DiffFrom(types.MergePatchType, mergeDiff, obj, opts...)
}

type diffPatch struct {
	kind types.PatchType
	diff func(from, to []byte, obj Object) (map[string]any, error)
	from Object
	lock bool
}

// DiffFrom returns a patch of the changes made to obj after the call, of a type whose documents
// diff computes. Package strategic uses it.
func DiffFrom(kind types.PatchType, diff func(from, to []byte, obj Object) (map[string]any, error), obj Object,
	opts ...PatchOption) Patch {
	p := diffPatch{kind: kind, diff: diff, from: obj.DeepCopyObject().(Object)}
	for _, opt := range opts {
		opt.applyPatch(&p)
	}
	return p
}

func (p diffPatch) Type() types.PatchType { return p.kind }

func (p diffPatch) Data(obj Object) ([]byte, error) {
	if reflect.TypeOf(obj) != reflect.TypeOf(p.from) {
		return nil, fmt.Errorf("compute patch: the original is a %T, the changed object a %T", p.from, obj)
	}
	if p.lock && p.from.GetResourceVersion() == "" {
		return nil, fmt.Errorf("%w: OptimisticLock needs it in the original object", ErrNoVersion)
	}
	from, err := json.Marshal(p.from)
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	patch, err := p.diff(from, to, obj)
	if err != nil {
		return nil, err
	}
	// The request path identifies the object, and resourceVersion belongs in the patch only with a
	// lock.
	metadata, _ := patch["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	if metadata != nil && len(metadata) == 0 {
		delete(patch, "metadata")
		metadata = nil
	}
	if p.lock {
		if metadata == nil {
			metadata = map[string]any{}
			patch["metadata"] = metadata
		}
		metadata["resourceVersion"] = p.from.GetResourceVersion()
	}
	return json.Marshal(patch)
}

func mergeDiff(from, to []byte, _ Object) (map[string]any, error) {
	var a, b map[string]any
	if err := utiljson.Unmarshal(from, &a); err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(to, &b); err != nil {
		return nil, err
	}
	return diffMaps(a, b), nil
}

// diffMaps returns the merge patch from a to b.
func diffMaps(a, b map[string]any) map[string]any {
	patch := map[string]any{}
	for k, old := range a {
		now, ok := b[k]
		if !ok {
			if old != nil {
				patch[k] = nil
			}
			continue
		}
		am, isMapA := old.(map[string]any)
		bm, isMapB := now.(map[string]any)
		if isMapA && isMapB {
			if d := diffMaps(am, bm); len(d) > 0 {
				patch[k] = d
			}
		} else if !reflect.DeepEqual(old, now) {
			patch[k] = now
		}
	}
	for k, now := range b {
		if _, ok := a[k]; !ok && now != nil {
			patch[k] = now
		}
	}
	return patch
}
