package client

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/tree"
)

// ApplyDocument is a Patch for a server-side apply. Create it with NewApplyDocument.
//
// The field manager owns every field in the document. A Go struct encodes more fields than its
// author has set; they would conflict with other managers, or the server would reject them. An
// ApplyDocument therefore drops
//   - nulls (metadata.creationTimestamp, including in pod templates; nil pointers and slices
//     without omitempty): in an apply, a null means "owned, and unset";
//   - metadata.managedFields: the server rejects an apply that has them, and an object that was
//     read has;
//   - status, if the apply is not to the status subresource and the status is empty ("status":
//     {"loadBalancer": {}}).
//
// Empty maps and lists elsewhere stay, because emptyDir: {} is meaningful. Zero numbers, strings
// and booleans stay too: a field without omitempty has no encoding for "unset".
type ApplyDocument struct {
	// Encoded is the object with everything that its type encodes. Equal encodings result in equal
	// applies.
	Encoded    []byte
	object     Object // nil if not known
	keepStatus bool
}

// NewApplyDocument returns the document that Apply sends for an object.
func NewApplyDocument(obj Object, scheme *runtime.Scheme) (ApplyDocument, error) {
	kind, err := KindOf(obj, scheme)
	if err != nil {
		return ApplyDocument{}, err
	}
	data, err := json.Marshal(withKind(obj, kind))
	if err != nil {
		return ApplyDocument{}, fmt.Errorf("encode: %w", err)
	}
	return ApplyDocument{Encoded: data, object: obj}, nil
}

// Type returns the apply patch type.
func (ApplyDocument) Type() types.PatchType { return types.ApplyPatchType }

// Data returns the document, which does not depend on the argument.
func (a ApplyDocument) Data(Object) ([]byte, error) {
	if !bytes.Contains(a.Encoded, []byte("null")) && !bytes.Contains(a.Encoded, []byte(`"managedFields":`)) {
		if doc, ok := a.cut(); ok {
			return doc, nil
		}
	}
	doc, err := parseObject(a.Encoded, nil)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	dropNulls(doc)
	if metadata, ok := doc["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	if !a.keepStatus && isEmpty(doc["status"]) {
		delete(doc, "status")
	}
	return json.Marshal(doc)
}

// cut returns the document if it needs no change except to remove the status. ok is false if it
// must be parsed.
func (a ApplyDocument) cut() (doc []byte, ok bool) {
	p := tree.Parser{Data: a.Encoded}
	var status, before int // where the status ends, and where the member before it ends
	end := 0
	err := p.Each(func(key []byte) error {
		begin := end
		p.Peek()
		value := p.At
		if err := p.Skip(); err != nil {
			return err
		}
		end = p.At
		if string(key) == "status" && !a.keepStatus && isEmptyText(a.Encoded[value:end]) {
			before, status = begin, end
		}
		return nil
	})
	switch {
	case err != nil || status > 0 && before == 0: // an object begins with its kind
		return nil, false
	case status == 0:
		return a.Encoded, true
	}
	return append(append(make([]byte, 0, len(a.Encoded)), a.Encoded[:before]...), a.Encoded[status:]...), true
}

// isEmptyText reports whether a JSON value consists of empty maps only.
func isEmptyText(raw []byte) bool {
	p := tree.Parser{Data: raw}
	v, err := p.Value()
	return err == nil && isEmpty(v)
}

// isOwnDocument reports whether this package encoded the patch.
func isOwnDocument(p Patch) bool {
	switch p.(type) {
	case applyPatch, ApplyDocument:
		return true
	}
	return false
}

// isApplyOf reports whether a patch is an apply of exactly obj.
func isApplyOf(p Patch, obj Object) bool {
	doc, isDocument := p.(ApplyDocument)
	_, isApply := p.(applyPatch)
	return isApply || isDocument && doc.object == obj
}

// applyPatch creates the document when Data is called.
type applyPatch struct {
	scheme     *runtime.Scheme
	keepStatus bool
}

func (applyPatch) Type() types.PatchType { return types.ApplyPatchType }

func (a applyPatch) Data(obj Object) ([]byte, error) {
	doc, err := NewApplyDocument(obj, a.scheme)
	if err != nil {
		return nil, err
	}
	doc.keepStatus = a.keepStatus
	return doc.Data(obj)
}

func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
			} else {
				dropNulls(e)
			}
		}
	case []any:
		for _, e := range v {
			dropNulls(e)
		}
	}
}

// isEmpty reports whether v consists of empty maps only.
func isEmpty(v any) bool {
	m, ok := v.(map[string]any)
	for _, e := range m {
		if !isEmpty(e) {
			return false
		}
	}
	return ok
}
