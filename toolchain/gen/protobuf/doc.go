// Package protobuf generates the protobuf methods of API types, with the wire format of Kubernetes'
// go-to-protobuf and without protoc:
//
//	Marshal, MarshalTo, MarshalToSizedBuffer, Size, Unmarshal, Reset
//
// The exported structs of a package are messages, and so are named slices, which have one repeated
// field, items. A type marked +protobuf=false and a field with the tag protobuf:"-" are omitted.
// TypeMeta is omitted unless it has a tag, because the envelope of an object contains it.
//
// # Field numbers
//
// A field has the number of its tag, protobuf:"bytes,1,opt,name=spec". Fields without a tag get the
// next free number of their type. The file zz_generated.protobuf.lock records these numbers, so
// that no other field gets the same number, even after its field was removed. Commit this file.
//
// # Wire format
//
// As in go-to-protobuf, fields that are not pointers are always encoded, even zero values. Nil
// pointers, nil byte slices, and empty maps and lists are not encoded. Maps are sorted by key.
// Repeated numbers are not packed, but are decoded in both forms.
package protobuf
