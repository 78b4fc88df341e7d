package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Change is a difference between two versions of an object.
type Change struct {
	// Path is the field, as in .spec.replicas or .spec.containers[web].image. Items of a list that
	// have different names are identified by name, others by index.
	Path string `json:"path"`
	// From and To are JSON values; empty if the field is absent.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// FieldChange is a Change whose path is divided into its elements: names of fields may contain
// dots, so Path does not tell where one ends.
type FieldChange struct {
	Change
	// Parts are the elements of Path, such as .spec, .containers, [web] and .image.
	Parts []string
}

// DiffOptions select what Diff includes.
type DiffOptions struct {
	// Secrets includes values of Secrets. Without it, From and To of a changed value are
	// "(hidden)".
	Secrets bool
	// Metadata includes resourceVersion and managedFields, which change with every write.
	Metadata bool
}

const hidden = "(hidden)"

// Diff returns the differences between two versions of an object as JSON, in the order of paths. An
// empty version means that the object does not exist.
func Diff(from, to []byte, opts DiffOptions) ([]Change, error) {
	a, err := decodeObject(from, opts)
	if err != nil {
		return nil, err
	}
	b, err := decodeObject(to, opts)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, c := range Compare(a, b, opts) {
		changes = append(changes, c.Change)
	}
	return changes, nil
}

// Compare does the same as Diff for decoded versions, and includes all metadata. A nil version
// means that the object does not exist. Equal numbers must have the same type in both versions.
func Compare(from, to map[string]any, opts DiffOptions) []FieldChange {
	d := differ{hide: !opts.Secrets && (isSecret(from) || isSecret(to))}
	d.compare("", from, to)
	return d.changes
}

// Redact replaces the values of a Secret: those of data and stringData, and the annotation in which
// kubectl keeps the whole object. It returns other objects unchanged.
func Redact(data []byte) ([]byte, error) {
	if !bytes.Contains(data, []byte(`"Secret"`)) {
		return data, nil
	}
	obj, err := decodeObject(data, DiffOptions{Metadata: true})
	if err != nil || !isSecret(obj) {
		return data, err
	}
	for _, field := range []string{"data", "stringData"} {
		if values, ok := obj[field].(map[string]any); ok {
			for name := range values {
				values[name] = ""
			}
		}
	}
	if meta, ok := obj["metadata"].(map[string]any); ok {
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			delete(annotations, lastApplied)
		}
	}
	return json.Marshal(obj)
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func decodeObject(data []byte, opts DiffOptions) (map[string]any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var obj map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // keep all digits of integers
	if err := d.Decode(&obj); err != nil {
		return nil, fmt.Errorf("decode version: %w", err)
	}
	if meta, ok := obj["metadata"].(map[string]any); ok && !opts.Metadata {
		delete(meta, "resourceVersion")
		delete(meta, "managedFields")
	}
	return obj, nil
}

func isSecret(obj map[string]any) bool {
	return obj["kind"] == "Secret" && obj["apiVersion"] == "v1"
}

type differ struct {
	hide    bool     // of values of Secrets
	parts   []string // of the path of the compared values
	changes []FieldChange
}

// compare appends the differences between two values; nil means absent.
func (d *differ) compare(path string, a, b any) {
	if reflect.DeepEqual(a, b) {
		return
	}
	x, y, ok := fields(a, b)
	if !ok {
		change := Change{path, d.text(path, a), d.text(path, b)}
		d.changes = append(d.changes, FieldChange{change, slices.Clone(d.parts)})
		return
	}
	names := maps.Clone(x)
	maps.Copy(names, y)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.parts = append(d.parts, name)
		d.compare(path+name, x[name], y[name])
		d.parts = d.parts[:len(d.parts)-1]
	}
}

// fields returns the parts of two maps, or of two lists, by the text that identifies each in a
// path. A nil map is one without fields, so that every field of a new object is a change.
func fields(a, b any) (x, y map[string]any, ok bool) {
	x, okA := parts(a)
	y, okB := parts(b)
	_, listA := a.([]any)
	_, listB := b.([]any)
	if !okA || !okB || listA != listB {
		return nil, nil, false
	}
	if listA && (x == nil || y == nil) { // without names: by index
		return byIndex(a.([]any)), byIndex(b.([]any)), true
	}
	return x, y, true
}

func parts(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out["."+name] = value
		}
		return out, true
	case []any:
		return byName(v), true
	}
	return nil, false
}

// byName returns the items by name or, for conditions, by type. It returns nil if the items are not
// maps with different names.
func byName(items []any) map[string]any {
	out := make(map[string]any, len(items))
	for _, item := range items {
		m, _ := item.(map[string]any)
		name, ok := m["name"].(string)
		if !ok {
			name, ok = m["type"].(string)
		}
		if _, twice := out["["+name+"]"]; !ok || twice {
			return nil
		}
		out["["+name+"]"] = item
	}
	return out
}

// Part is a field of a map, or an item of a list.
type Part struct {
	// Name is the last element of the part's path, such as .replicas, [web] or [0].
	Name  string
	Value any
}

// Parts divides a map or a list of decoded JSON as Diff does. It returns nil for other values.
func Parts(v any) []Part {
	parts, ok := parts(v)
	if items, list := v.([]any); list && parts == nil {
		all := make([]Part, len(items))
		for i, item := range items {
			all[i] = Part{fmt.Sprintf("[%d]", i), item}
		}
		return all
	}
	if !ok {
		return nil
	}
	var all []Part
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		all = append(all, Part{name, parts[name]})
	}
	return all
}

func byIndex(items []any) map[string]any {
	out := make(map[string]any, len(items))
	for i, item := range items {
		out[fmt.Sprintf("[%d]", i)] = item
	}
	return out
}

// text returns a value as JSON, or a placeholder for values of Secrets.
func (d *differ) text(path string, v any) string {
	if v == nil {
		return ""
	}
	if d.hide && secretPath(path) {
		return hidden
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// secretPath reports whether the field of a Secret may contain its values.
func secretPath(path string) bool {
	for _, prefix := range []string{".data", ".stringData", ".metadata.annotations"} {
		if len(path) >= len(prefix) && path[:len(prefix)] == prefix {
			return true
		}
	}
	return path == ".metadata"
}
