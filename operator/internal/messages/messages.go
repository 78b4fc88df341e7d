package messages

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sharing is what values that are read have in common. A nil Sharing shares nothing.
type Sharing interface {
	// Text is b as a string, perhaps an earlier one.
	Text(b []byte) string
	// FieldsV1 is an earlier value of the same bytes, nil if there is none. Nobody may change it.
	FieldsV1(raw []byte) *metav1.FieldsV1
	// KeepFieldsV1 is told of a value for later.
	KeepFieldsV1(*metav1.FieldsV1)
}

// Decode reads a message into the struct that into points to, of which nothing may be set but what no message sets. It says no to what is not
// read here; anything may be set then. Nothing of data is kept.
func Decode(data []byte, into any, share Sharing) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || !isMessage(v.Type().Elem()) {
		return false
	}
	p := planOf(v.Type().Elem())
	if p.how != byFields {
		return false
	}
	r := reader{share: share}
	return r.fields(p, data, v.UnsafePointer(), 0)
}
