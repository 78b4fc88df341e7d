package managedfields

import (
	"bytes"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/fastpath/fieldset"
)

// read returns the managers of entries of managedFields. ok is false if only the library
// understands them.
func (m *StructManager) read(entries []metav1.ManagedFieldsEntry) (managers owners, ok bool) {
	managers = make(owners, 0, len(entries)+1)
	for i := range entries {
		e := &entries[i]
		o := owner{identity: identity{e.Manager, string(e.Operation), e.Subresource}, at: i}
		if e.Time != nil {
			if o.time = e.Time.Unix(); o.time <= 0 {
				return nil, false
			}
		}
		if e.APIVersion != m.version || e.FieldsType != "FieldsV1" || e.FieldsV1 == nil ||
			o.operation != operationApply && o.operation != operationUpdate ||
			o.name == "" || !fieldset.Plain(o.name) || !fieldset.Plain(o.subresource) ||
			managers.find(o.identity) >= 0 {
			return nil, false
		}
		o.fields = m.cache.encoded(e.FieldsV1.GetRawBytes())
		managers = append(managers, o)
	}
	return managers, true
}

// write sets the managers of an object that has the entries from which the managers come.
func (m *StructManager) write(object metav1.Object, managers owners) {
	managers.sort()
	entries := object.GetManagedFields()
	list := make([]metav1.ManagedFieldsEntry, len(managers))
	for i, o := range managers {
		if o.at >= 0 {
			list[i] = entries[o.at]
			if !o.dirty {
				continue
			}
		}
		e := &list[i]
		*e = metav1.ManagedFieldsEntry{
			Manager: o.name, Operation: metav1.ManagedFieldsOperationType(o.operation), APIVersion: m.version,
			FieldsType: "FieldsV1", FieldsV1: e.FieldsV1, Subresource: o.subresource,
		}
		if o.time != 0 {
			e.Time = &metav1.Time{Time: time.Unix(o.time, 0).UTC()}
		}
		if e.FieldsV1 == nil || !bytes.Equal(e.FieldsV1.GetRawBytes(), o.fields.raw) {
			e.FieldsV1 = &metav1.FieldsV1{}
			e.FieldsV1.SetRawBytes(bytes.Clone(o.fields.raw)) // the cache owns raw
		}
	}
	object.SetManagedFields(list)
}
