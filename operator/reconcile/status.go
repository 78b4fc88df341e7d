package reconcile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"kelson.dev/internal/tree"
	"kelson.dev/operator/client"
)

// newMergePatch returns a patch in the format of RFC 7386.
func newMergePatch(document map[string]any) (client.Patch, error) {
	data, err := json.Marshal(document)
	return client.RawPatch(types.MergePatchType, data), err
}

// statusPatch returns the patch from the status of before to that of after, with the changed
// fields; nil if they are equal. The patch requires the resourceVersion of before: it replaces
// lists such as conditions as a whole, so it must not overwrite changes by other writers.
func statusPatch(before, after client.Object) (patch client.Patch, fields map[string]any, err error) {
	if sameStatus(before, after) {
		return nil, nil, nil
	}
	var p client.StatusPatch
	// otherwise it was written in the meantime
	if before.GetResourceVersion() == after.GetResourceVersion() {
		p.Before = before
	}
	if p.Old, err = encodeStatus(before); err != nil {
		return nil, nil, err
	}
	if p.New, err = encodeStatus(after); err != nil || bytes.Equal(p.Old, p.New) {
		return nil, nil, err
	}
	oldFields, err := fieldsOf(p.Old)
	if err != nil {
		return nil, nil, err
	}
	newFields, err := fieldsOf(p.New)
	if err != nil {
		return nil, nil, err
	}
	fields = changes(oldFields, newFields)
	p.Document, err = tree.Append(nil, map[string]any{
		"metadata": map[string]any{"resourceVersion": after.GetResourceVersion()},
		"status":   fields,
	}, nil)
	return p, fields, err
}

// fieldsOf parses an encoded status into a tree that preserves integers.
func fieldsOf(status []byte) (map[string]any, error) {
	fields, err := tree.Parse(status, nil)
	if err != nil { // null, or unusual JSON
		fields = nil
		err = kjson.UnmarshalCaseSensitivePreserveInts(status, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("compare status: %w", err)
	}
	return fields, nil
}

// hasStatus reports whether the kind of an object has a status. ConfigMaps, for example, have none.
func hasStatus(obj client.Object) bool {
	_, untyped := obj.(*unstructured.Unstructured)
	return untyped || statusField(obj).IsValid()
}

// sameStatus reports whether two objects have equal statuses, without encoding them. False can also
// mean unknown.
func sameStatus(a, b client.Object) bool {
	u, ok := a.(*unstructured.Unstructured)
	if v, too := b.(*unstructured.Unstructured); ok && too {
		return reflect.DeepEqual(u.Object["status"], v.Object["status"])
	}
	s, t := statusField(a), statusField(b)
	return s.IsValid() && t.IsValid() && s.Type() == t.Type() && reflect.DeepEqual(s.Interface(), t.Interface())
}

// encodeStatus returns the status of an object as JSON; "null" for none.
func encodeStatus(obj client.Object) ([]byte, error) {
	var status any
	if u, ok := obj.(*unstructured.Unstructured); ok {
		status = u.Object["status"]
	} else if field := statusField(obj); field.IsValid() {
		status = field.Interface()
	}
	data, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	return data, nil
}

// changes returns the merge patch from old to new.
func changes(old, new map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range old {
		if _, kept := new[name]; !kept {
			patch[name] = nil
		}
	}
	for name, value := range new {
		was, ok := old[name]
		if ok && tree.Same(was, value) {
			continue
		}
		wasFields, ok1 := was.(map[string]any)
		fields, ok2 := value.(map[string]any)
		if ok1 && ok2 {
			value = changes(wasFields, fields)
		}
		patch[name] = value
	}
	return patch
}

// observe sets Status.ObservedGeneration, if there is such a field, to the object's generation.
func observe(obj client.Object) {
	if status := statusField(obj); status.IsValid() {
		if f := status.FieldByName("ObservedGeneration"); f.IsValid() && f.CanSet() && f.CanInt() {
			f.SetInt(obj.GetGeneration())
		}
	}
}
