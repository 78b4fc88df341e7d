// Package protobuf generates the protobuf methods of API types, with the wire format of Kubernetes'
// go-to-protobuf and without protoc:
//
//	Marshal, MarshalTo, MarshalToSizedBuffer, Size, Unmarshal, Reset
//
// The exported structs of a package are messages, and so are named slices, which have one repeated
// field, items. A type marked +protobuf=false and a field with the tag protobuf:"-" are left out;
// TypeMeta is left out unless it has a tag, because the envelope of an object has it.
//
// # Field numbers
//
// A field has the number of its tag, protobuf:"bytes,1,opt,name=spec". Fields without a tag get the
// next free number of their type. The file zz_generated.protobuf.lock, which belongs into version
// control, records these numbers, so that a number is never given to another field, even after its
// field was removed.
//
// # Wire format
//
// As go-to-protobuf: fields that are not pointers are always encoded, even zero values; nil
// pointers, nil byte slices and empty maps and lists are not. Maps are sorted by key. Repeated
// numbers are not packed, but are decoded in both forms.
package protobuf
