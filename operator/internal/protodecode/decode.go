package protodecode

import "reflect"

// Sharing provides values that decoded objects share. A nil Sharing shares nothing.
type Sharing interface {
	// Text returns b as a string, possibly an earlier one.
	Text(b []byte) string
	// Parts returns the shared parts; nil if callers may modify the decoded values.
	Parts() *Parts
}

// Decode decodes a message into the struct that into points to, in which only fields that no
// message sets may be set. It returns false for unsupported input; the content of the struct is
// then undefined. It does not retain data.
func Decode(data []byte, into any, share Sharing) bool {
	ok, _ := Read(data, into, share)
	return ok
}

// Read is Decode, and also reports whether the message has fields that the Go type lacks. It does
// not check parts that are shared with earlier messages.
func Read(data []byte, into any, share Sharing) (ok, lacks bool) {
	v := reflect.ValueOf(into)
	if _, ok := into.(unmarshaler); !ok || v.Kind() != reflect.Pointer || v.IsNil() {
		return false, false
	}
	p := planOf(v.Type().Elem())
	if p.how != byFields {
		return false, false
	}
	r := reader{share: share}
	if share != nil {
		r.parts = share.Parts()
	}
	ok = r.fields(p, data, v.UnsafePointer(), 0)
	return ok, r.lacks
}
