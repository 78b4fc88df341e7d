package client

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/tree"
)

// ApplyDocument is a server-side apply, as a Patch. Make it with NewApplyDocument.
//
// Whatever the document holds becomes the owner's: it would fight over it with others, and be refused where it must not
// be set. A Go struct, though, writes more than its author has set. Dropped are therefore
//   - nulls (metadata.creationTimestamp, also in pod templates; nil pointers and slices without omitempty): in an apply they
//     mean "mine, and unset";
//   - metadata.managedFields: the server refuses an apply that has them (an object that was read has);
//   - status, when applying the object itself and nothing is in it ("status": {"loadBalancer": {}}).
//
// Empty maps and lists elsewhere stay: emptyDir: {} says something. So do zero numbers, strings and booleans: a type whose
// fields are written without omitempty cannot say "unset".
type ApplyDocument struct {
	// Encoded is the object with all that its type writes. Objects that are encoded alike are applied alike.
	Encoded    []byte
	of         Object // nil if that is not known
	keepStatus bool
}

// NewApplyDocument is what Apply sends for an object.
func NewApplyDocument(obj Object, scheme *runtime.Scheme) (ApplyDocument, error) {
	kind, err := KindOf(obj, scheme)
	if err != nil {
		return ApplyDocument{}, err
	}
	data, err := json.Marshal(withKind(obj, kind))
	if err != nil {
		return ApplyDocument{}, fmt.Errorf("encode: %w", err)
	}
	return ApplyDocument{Encoded: data, of: obj}, nil
}

// Type is that of an apply.
func (ApplyDocument) Type() types.PatchType { return types.ApplyPatchType }

// Data is the document, which is that of the object it was made of.
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
	if !a.keepStatus && isHollow(doc["status"]) {
		delete(doc, "status")
	}
	return json.Marshal(doc)
}

// cut is a document without nulls and managedFields, without its status if that is to go; not ok if that takes a closer look.
func (a ApplyDocument) cut() (doc []byte, ok bool) {
	p := tree.Parser{Data: a.Encoded}
	var status, before int // where the status is, and the end of what comes before it
	end := 0
	err := p.Each(func(key []byte) error {
		begin := end
		p.Peek()
		value := p.At
		if err := p.Skip(); err != nil {
			return err
		}
		end = p.At
		if string(key) == "status" && !a.keepStatus && isHollowText(a.Encoded[value:end]) {
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

// isHollowText says that there is nothing in a value but empty maps.
func isHollowText(raw []byte) bool {
	p := tree.Parser{Data: raw}
	v, err := p.Value()
	return err == nil && isHollow(v)
}

// isOwnDocument says that a patch was written by an encoder.
func isOwnDocument(p Patch) bool {
	switch p.(type) {
	case applyPatch, ApplyDocument:
		return true
	}
	return false
}

// saysAll says that a patch is a document that has all of obj, and nothing else.
func saysAll(p Patch, obj Object) bool {
	doc, isDocument := p.(ApplyDocument)
	_, isApply := p.(applyPatch)
	return isApply || isDocument && doc.of == obj
}

// applyPatch makes the document when it is asked for.
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

// isHollow says that there is nothing in v but empty maps.
func isHollow(v any) bool {
	m, ok := v.(map[string]any)
	for _, e := range m {
		if !isHollow(e) {
			return false
		}
	}
	return ok
}
