package fieldset

import (
	"slices"
	"strings"

	"kelson.dev/apiserver/fastpath/shape"
)

// ElementKey is the key of an element of a list.
type ElementKey struct {
	At  int // the element's position
	In  int // its position in another list
	Key [MaxKeys]Scalar
}

// MaxKeys is the number of key members of a list that a Writer supports.
const MaxKeys = 3

// Scalar is the value of a key member. Its zero value stands for a missing one.
type Scalar struct {
	Kind   shape.Kind // Text or Number; Unknown: there is none
	Text   string
	Number int64
}

// ScalarOf returns the scalar of a value of a tree. ok is false if keys cannot have the value.
func ScalarOf(value any) (s Scalar, ok bool) {
	switch v := value.(type) {
	case string:
		return Scalar{Kind: shape.Text, Text: v}, true
	case int64:
		return Scalar{Kind: shape.Number, Number: v}, true
	}
	return Scalar{}, false
}

// Compare orders keys as the library does.
func (a ElementKey) Compare(b ElementKey) int {
	for i := range a.Key {
		x, y := a.Key[i], b.Key[i]
		switch {
		case x.Kind != y.Kind: // numbers first
			return int(y.Kind) - int(x.Kind)
		case x.Text != y.Text:
			return strings.Compare(x.Text, y.Text)
		case x.Number < y.Number:
			return -1
		case x.Number > y.Number:
			return 1
		}
	}
	return 0
}

// SortKeys sorts the keys since base. It returns false if two are equal.
func (w *Writer) SortKeys(base int) (ok bool) {
	keys := w.Keys[base:]
	if len(keys) < 2 {
		return true
	}
	slices.SortFunc(keys, ElementKey.Compare)
	for i := range keys[1:] {
		if keys[i].Compare(keys[i+1]) == 0 {
			return false
		}
	}
	return true
}

// ElementKeyOf returns the key of an element of a list of shape s, in a tree. ok is false if the
// element lacks a key member without a default, for which the library may have an error.
func ElementKeyOf(element any, s *shape.Shape) (m ElementKey, ok bool) {
	if len(s.Keys) == 0 {
		m.Key[0], ok = ScalarOf(element)
		return m, ok
	}
	members, ok := element.(map[string]any)
	if !ok || len(s.Keys) > MaxKeys {
		return m, false
	}
	for i, k := range s.Keys {
		value, has := members[k.Name]
		if !has {
			value = k.Default
		}
		if m.Key[i], ok = ScalarOf(value); !ok {
			return m, false
		}
	}
	return m, true
}

// addKeys adds the keys of the elements of a list, sorted.
func (w *Writer) addKeys(elements []any, s *shape.Shape) bool {
	base := len(w.Keys)
	for i, element := range elements {
		m, ok := ElementKeyOf(element, s)
		if !ok {
			return false
		}
		m.At = i
		w.Keys = append(w.Keys, m)
	}
	return w.SortKeys(base)
}
