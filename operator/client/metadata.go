package client

import (
	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The fields of metadata and of its managedFields in protobuf.
const (
	metaManagedFields                                   = 17
	entryManager, entryOperation, entryVersion          = 1, 2, 3
	entryTime, entryType, entryFields, entrySubresource = 4, 6, 7, 8
	fieldsRaw                                           = 1
)

// unmarshalShared reads a message into an object with nothing set whose managedFields may be those of earlier ones: these are a large part of
// an object, and mostly the same. It is for what marshalers write, which is one field after the other in their order; not ok is anything else, and
// then what is in fresh is of no use.
func (s *sharing) unmarshalShared(raw []byte, fresh message) (ok bool) {
	accessor, ok := fresh.(metav1.ObjectMetaAccessor)
	if !ok {
		return false
	}
	meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return false
	}
	number, kind, n := protowire.ConsumeTag(raw)
	if n < 0 || number != objectMeta || kind != protowire.BytesType {
		return false
	}
	encoded, m := protowire.ConsumeBytes(raw[n:])
	if m < 0 {
		return false
	}
	begin, ok := s.cutManagedFields(encoded, meta)
	return ok && meta.Unmarshal(encoded[:begin]) == nil && fresh.Unmarshal(raw[n+m:]) == nil
}

// cutManagedFields reads the managedFields of encoded metadata, which are its last field, and says where they begin.
func (s *sharing) cutManagedFields(encoded []byte, meta *metav1.ObjectMeta) (begin int, ok bool) {
	begin = len(encoded)
	count := 0
	var entries []metav1.ManagedFieldsEntry
	for at := 0; at < len(encoded); {
		number, kind, n := protowire.ConsumeTag(encoded[at:])
		if n < 0 {
			return 0, false
		}
		m := protowire.ConsumeFieldValue(number, kind, encoded[at+n:])
		if m < 0 {
			return 0, false
		}
		switch {
		case number == metaManagedFields && kind == protowire.BytesType:
			if begin = min(begin, at); entries == nil {
				entries = make([]metav1.ManagedFieldsEntry, 0, 4)
			}
			value, _ := protowire.ConsumeBytes(encoded[at+n:])
			entries = append(entries, metav1.ManagedFieldsEntry{})
			if !s.entry(value, &entries[count]) {
				return 0, false
			}
			count++
		case begin < len(encoded):
			return 0, false
		}
		at += n + m
	}
	meta.ManagedFields = append([]metav1.ManagedFieldsEntry(nil), entries...) // no longer than it is
	return begin, true
}

// entry reads one entry of managedFields.
func (s *sharing) entry(encoded []byte, e *metav1.ManagedFieldsEntry) bool {
	for len(encoded) > 0 {
		number, kind, n := protowire.ConsumeTag(encoded)
		if n < 0 || kind != protowire.BytesType {
			return false
		}
		value, m := protowire.ConsumeBytes(encoded[n:])
		if m < 0 {
			return false
		}
		encoded = encoded[n+m:]
		switch number {
		case entryManager:
			e.Manager = s.Text(value)
		case entryOperation:
			e.Operation = metav1.ManagedFieldsOperationType(s.Text(value))
		case entryVersion:
			e.APIVersion = s.Text(value)
		case entryType:
			e.FieldsType = s.Text(value)
		case entrySubresource:
			e.Subresource = s.Text(value)
		case entryTime:
			e.Time = &metav1.Time{}
			if e.Time.Unmarshal(value) != nil {
				return false
			}
		case entryFields:
			if !s.entryFields(value, e) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (s *sharing) entryFields(encoded []byte, e *metav1.ManagedFieldsEntry) bool {
	number, kind, n := protowire.ConsumeTag(encoded)
	if n < 0 || number != fieldsRaw || kind != protowire.BytesType {
		return false
	}
	raw, m := protowire.ConsumeBytes(encoded[n:])
	if m != len(encoded)-n {
		return false
	}
	if e.FieldsV1 = s.FieldsV1(raw); e.FieldsV1 != nil {
		return true
	}
	e.FieldsV1 = &metav1.FieldsV1{}
	if e.FieldsV1.Unmarshal(encoded) != nil {
		return false
	}
	if len(s.fields) < maxTrees {
		s.fields[string(raw)] = e.FieldsV1
	}
	return true
}
