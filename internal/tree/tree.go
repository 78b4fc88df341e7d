// Package tree reads and writes JSON objects as trees of map[string]any, []any, string, bool,
// int64, float64 and nil, the content of unstructured objects.
//
//	object, err := tree.Parse(data, nil)
//	if err != nil {
//		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object) // returns a good error message
//	}
//	data, err = tree.Append(nil, object, nil)
//
// The results are those of apimachinery's decoder and of encoding/json, in a fraction of the time,
// because the package supports only these types. For unusual input, Parse returns [ErrUnusual], and
// the caller must use the decoder.
//
// [Parser] and [Marks] serve callers that need only a part of a document, or its structure.
//
// All functions are safe for concurrent use, if the Sharing is.
package tree

import "errors"

// ErrUnusual is returned for malformed JSON and for input that this package does not support:
// numbers and strings in unusual notations, and duplicate names.
var ErrUnusual = errors.New("unusual JSON")

// Sharing provides values that decoded trees share. A nil Sharing shares nothing.
type Sharing interface {
	// Text returns b as a string, possibly an earlier one.
	Text(b []byte) string
	// Fields returns an earlier tree with the same encoding as the value of a key fieldsV1; these
	// are the largest equal parts of objects. Callers must not modify it.
	Fields(raw []byte) (tree map[string]any, ok bool)
	// Keep offers a tree for later results of Fields. The tree may be retained, raw may not.
	Keep(raw []byte, tree map[string]any)
}

// Bytes provides the known encoding of some maps, because they were decoded from it or encoded
// before. It is called for values of keys fieldsV1.
type Bytes interface {
	Bytes(tree map[string]any) (raw []byte, ok bool)
}

// Parse decodes a JSON object. An error is [ErrUnusual].
func Parse(data []byte, share Sharing) (map[string]any, error) {
	p := Parser{Data: data, Share: share}
	value, err := p.Value()
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if p.space(); !ok || p.At != len(data) {
		return nil, ErrUnusual
	}
	return object, nil
}
