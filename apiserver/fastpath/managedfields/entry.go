package managedfields

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// identity identifies a manager of an object, within one version.
type identity struct{ name, operation, subresource string }

const (
	operationApply  = "Apply"
	operationUpdate = "Update"
)

// entry is one manager of an object, with the fields that it owns.
type entry struct {
	identity
	fields *fields
	time   string         // RFC 3339, in UTC; "" if the entry has none
	raw    map[string]any // the entry as the object has it; nil for a new one
}

// entries are an object's managers, in order.
type entries []entry

// listOf returns metadata.managedFields. set reports whether the object has it.
func listOf(u *unstructured.Unstructured) (list any, set bool) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	list, set = metadata["managedFields"]
	return list, set
}

// read returns an object's managers. ok is false if only the library understands them.
func (m *Manager) read(u *unstructured.Unstructured) (_ entries, ok bool) {
	value, set := listOf(u)
	if !set {
		return nil, true
	}
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return nil, false
	}
	out := make(entries, 0, len(list)+1)
	for _, value := range list {
		raw, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		e := entry{raw: raw}
		var version, form string
		var content map[string]any
		for name, value := range raw {
			if name == "fieldsV1" {
				if content, ok = value.(map[string]any); !ok {
					return nil, false
				}
				continue
			}
			word, ok := value.(string)
			if !ok || word == "" {
				return nil, false
			}
			switch name {
			case "manager":
				e.name = word
			case "operation":
				e.operation = word
			case "subresource":
				e.subresource = word
			case "time":
				e.time = word
			case "apiVersion":
				version = word
			case "fieldsType":
				form = word
			default:
				return nil, false
			}
		}
		if version != m.version || form != "FieldsV1" || e.operation != operationApply && e.operation != operationUpdate || e.name == "" || content == nil || !ordered(e.time) {
			return nil, false
		}
		var err error
		if e.fields, err = m.cache.ofTree(content); err != nil {
			return nil, false
		}
		if out.find(e.identity) >= 0 {
			return nil, false
		}
		out = append(out, e)
	}
	return out, true
}

// ordered reports whether a time compares as text with others. The empty time is before all others.
func ordered(word string) bool { return word == "" || ExactTime(word) && word > "1970-01-01T00:00:00Z" }

func (es entries) find(who identity) int {
	return slices.IndexFunc(es, func(e entry) bool { return e.identity == who })
}

// write sets an object's managers. It sorts es as the library does.
func (m *Manager) write(u *unstructured.Unstructured, es entries) {
	metadata, ok := u.Object["metadata"].(map[string]any)
	if len(es) == 0 {
		delete(metadata, "managedFields")
		return
	}
	slices.SortStableFunc(es, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(a.time, b.time), cmp.Compare(a.name, b.name), cmp.Compare(a.subresource, b.subresource))
	})
	list := make([]any, len(es))
	for i, e := range es {
		if e.raw == nil {
			e.raw = make(map[string]any, 7)
			e.raw["manager"], e.raw["operation"], e.raw["apiVersion"] = e.name, e.operation, m.version
			e.raw["fieldsType"], e.raw["fieldsV1"] = "FieldsV1", e.fields.tree
			if e.time != "" {
				e.raw["time"] = e.time
			}
			if e.subresource != "" {
				e.raw["subresource"] = e.subresource
			}
		}
		list[i] = e.raw
	}
	if !ok {
		metadata = map[string]any{}
		u.Object["metadata"] = metadata
	}
	metadata["managedFields"] = list
}
