// Package tree reads and writes JSON objects as trees of map[string]any, []any, string, bool, int64, float64 and nil, which is what
// unstructured objects are made of.
//
//	object, err := tree.Parse(data, nil)
//	if err != nil {
//		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object) // it knows what to say of what is wrong
//	}
//	data, err = tree.Append(nil, object, nil)
//
// Both give what the decoder of apimachinery and encoding/json give, several times as fast, because they know what they make. What is
// out of the ordinary they leave to these: Parse ends with [ErrUnusual], and it is for the caller to ask again there.
//
// Everything here may be used by several goroutines at once, if what is shared may be.
package tree

import "errors"

// ErrUnusual is what is wrong with JSON that is malformed, or that this package does not read: numbers and strings that the two decoders would have
// to agree about, and names that come twice.
var ErrUnusual = errors.New("unusual JSON")

// Sharing is what trees that are read have in common. A nil Sharing shares nothing.
type Sharing interface {
	// Text is b as a string, perhaps one that was given before.
	Text(b []byte) string
	// Fields is an earlier tree of the same bytes as the value of a key fieldsV1, which are most of what is alike in objects. Nobody may change it.
	Fields(raw []byte) (tree map[string]any, ok bool)
	// Keep offers a tree to be what Fields gives from now on. The tree may be kept, raw not.
	Keep(raw []byte, tree map[string]any)
}

// Bytes tells what the trees of some maps look like when they are written, because they were read from that or written before. It
// is asked for values of keys fieldsV1.
type Bytes interface {
	Bytes(tree map[string]any) (raw []byte, ok bool)
}

// Parse reads a JSON object. On an error it is [ErrUnusual].
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
