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
)

// Field is a field with one of its managers. A field that several managers applied has one Field
// per manager.
type Field struct {
	Path        string    `json:"path"`            // such as .spec.containers[name="app"].image
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
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
			return nil, fmt.Errorf("read managedFields of %s: %w", entry.Manager, err)
		}
		set.Leaves().Iterate(func(path fieldpath.Path) {
			f := Field{Path: path.String(), Manager: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource, Time: timeOf(entry)}
			if secret && (strings.HasPrefix(f.Path, ".data") || strings.HasPrefix(f.Path, ".stringData")) {
				f.Hidden = true
			} else {
				f.Value = at(object.Object, path)
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

// at returns the value at a path; nil if there is none.
func at(v any, path fieldpath.Path) any {
	for _, e := range path {
		switch {
		case e.FieldName != nil:
			object, _ := v.(map[string]any)
			v = object[*e.FieldName]
		case e.Value != nil: // a member of a set
			return (*e.Value).Unstructured()
		default:
			list, _ := v.([]any)
			v = item(list, e)
		}
	}
	return v
}

func item(list []any, e fieldpath.PathElement) any {
	for i, v := range list {
		if e.Index != nil && *e.Index == i {
			return v
		}
		object, ok := v.(map[string]any)
		if e.Key == nil || !ok {
			continue
		}
		if !slices.ContainsFunc(*e.Key, func(k value.Field) bool { return !value.Equals(k.Value, value.NewValueInterface(object[k.Name])) }) {
			return v
		}
	}
	return nil
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
