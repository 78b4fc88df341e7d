// Package structs reads JSON into Go structs.
//
//	var pod corev1.Pod
//	if err := structs.Decode(data, &pod, nil); err != nil {
//		pod = corev1.Pod{}
//		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &pod) // it knows what to say of what is wrong
//	}
//
// It gives what the decoder of apimachinery gives, several times as fast: how to read a type is worked out once, the data is gone over
// once, and slices are made as long as they will be. What is out of the ordinary it leaves to that decoder: types that want an encoding of their
// own one by one, and data that is malformed or does not fit by [tree.ErrUnusual].
package structs

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/tree"
)

// Sharing is what values that are read have in common. A nil Sharing shares nothing.
type Sharing interface {
	tree.Sharing
	// FieldsV1 is an earlier value of the same bytes, nil if there is none. Nobody may change it.
	FieldsV1(raw []byte) *metav1.FieldsV1
}

// Decode reads an object into what into points to, which must be a struct with nothing set but what data sets, too. On an error, which is [tree.ErrUnusual], anything may
// be set there. lost, if not nil, is called with each object of which the type has no place for some part of the status.
func Decode(data []byte, into any, share Sharing, lost func(obj metav1.Object, what Loss)) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return tree.ErrUnusual
	}
	r := reader{Parser: tree.Parser{Data: data}, share: share}
	r.loss.lost = lost
	if share != nil {
		r.Share = share
	}
	if err := planOf(v.Type().Elem()).read(&r, v.Elem(), 0); err != nil {
		return err
	}
	if r.Peek(); r.At != len(data) {
		return tree.ErrUnusual
	}
	return nil
}
