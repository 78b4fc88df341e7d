package messages

import "reflect"

// Sharing is what values that are read have in common. A nil Sharing shares nothing.
type Sharing interface {
	// Text is b as a string, perhaps an earlier one.
	Text(b []byte) string
	// Parts are those that may be in values, nil if these may be changed.
	Parts() *Parts
}

// Decode reads a message into the struct that into points to, of which nothing may be set but what no message sets. It says no to what is not
// read here; anything may be set then. Nothing of data is kept.
func Decode(data []byte, into any, share Sharing) bool {
	ok, _ := Read(data, into, share)
	return ok
}

// Read is Decode, and reports whether the message has fields that the Go type lacks. It does not look into parts that are shared with earlier messages.
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
