package blame

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kelson.dev/lab/history"
)

// Field is a field with one of its managers. A field that several managers applied has one Field
// per manager.
type Field struct {
	Path        string    `json:"path"`            // as history.Change.Path
	Value       any       `json:"value,omitempty"` // absent if it is hidden, or not in the object
	Hidden      bool      `json:"hidden,omitempty"`
	Manager     string    `json:"manager"`
	Operation   string    `json:"operation"` // Apply or Update
	Subresource string    `json:"subresource,omitempty"`
	Time        time.Time `json:"time,omitzero"`
}

// fieldsOf returns the fields of an object that have a manager, by path. The values of Secrets are
// hidden.
func fieldsOf(object *unstructured.Unstructured) ([]Field, error) {
	secret := object.GetKind() == "Secret" && object.GetAPIVersion() == "v1"
	all := []Field{}
	for _, entry := range object.GetManagedFields() {
		if entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("read managedFields of %s: %w", entry.Manager, err)
		}
		set.Leaves().Iterate(func(path fieldpath.Path) {
			f := Field{Manager: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource,
				Time: timeOf(entry)}
			f.Path, f.Value = at(object.Object, path)
			if secret && secretField(f.Path) {
				f.Value, f.Hidden = nil, true
			}
			all = append(all, f)
		})
	}
	slices.SortStableFunc(all, func(a, b Field) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Time.Compare(b.Time), strings.Compare(a.Manager, b.Manager))
	})
	return all, nil
}

func timeOf(entry metav1.ManagedFieldsEntry) time.Time {
	if entry.Time == nil {
		return time.Time{}
	}
	return entry.Time.UTC()
}

// secretField reports whether a field of a Secret may contain its values. An annotation may have
// those that kubectl applied.
func secretField(path string) bool {
	return strings.HasPrefix(path, ".data") || strings.HasPrefix(path, ".stringData") ||
		strings.HasPrefix(path, ".metadata.annotations")
}

// at returns the name and the value of the field at a path. The value is nil if the object does not
// have the field; items that it does not have are named as in managedFields.
func at(v any, path fieldpath.Path) (string, any) {
	name := ""
	for _, e := range path {
		if e.FieldName != nil {
			object, _ := v.(map[string]any)
			name, v = name+"."+*e.FieldName, object[*e.FieldName]
			continue
		}
		part := item(v, e)
		name, v = name+part.Name, part.Value
	}
	return name, v
}

// item returns the item of a list that a path element selects.
func item(list any, e fieldpath.PathElement) history.Part {
	for _, part := range history.Parts(list) {
		object, _ := part.Value.(map[string]any)
		switch {
		case e.Index != nil && part.Name == e.String(),
			e.Value != nil && value.Equals(*e.Value, value.NewValueInterface(part.Value)),
			e.Key != nil && object != nil && !slices.ContainsFunc(*e.Key, func(k value.Field) bool {
				return !value.Equals(k.Value, value.NewValueInterface(object[k.Name]))
			}):
			return part
		}
	}
	return history.Part{Name: e.String()}
}

// text returns a value in one line.
func (f Field) text() string {
	if f.Hidden {
		return "(hidden)"
	}
	if f.Value == nil {
		return ""
	}
	data, err := json.Marshal(f.Value)
	if err != nil {
		return "?"
	}
	const most = 60
	if text := []rune(string(data)); len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(data)
}
