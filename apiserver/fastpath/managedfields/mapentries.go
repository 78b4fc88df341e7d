package managedfields

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// listOf returns metadata.managedFields. set reports whether the object has it.
func listOf(u *unstructured.Unstructured) (list any, set bool) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	list, set = metadata["managedFields"]
	return list, set
}

// read returns an object's entries of managedFields and its managers. ok is false if only the
// library understands them.
func (m *MapManager) read(u *unstructured.Unstructured) (entries []any, managers owners, ok bool) {
	value, set := listOf(u)
	if !set {
		return nil, nil, true
	}
	entries, ok = value.([]any)
	if !ok || len(entries) == 0 {
		return nil, nil, false
	}
	managers = make(owners, 0, len(entries)+1)
	for i, entry := range entries {
		o, ok := m.owner(entry)
		if !ok || managers.find(o.identity) >= 0 {
			return nil, nil, false
		}
		o.at = i
		managers = append(managers, o)
	}
	return entries, managers, true
}

// owner returns the manager of an entry of managedFields.
func (m *MapManager) owner(entry any) (o owner, ok bool) {
	members, ok := entry.(map[string]any)
	if !ok {
		return o, false
	}
	var version, form string
	var content map[string]any
	for name, value := range members {
		if name == "fieldsV1" {
			if content, ok = value.(map[string]any); !ok {
				return o, false
			}
			continue
		}
		word, ok := value.(string)
		if !ok || word == "" {
			return o, false
		}
		switch name {
		case "manager":
			o.name = word
		case "operation":
			o.operation = word
		case "subresource":
			o.subresource = word
		case "time":
			t, ok := exactTime(word)
			if o.time = t.Unix(); !ok || o.time <= 0 {
				return o, false
			}
		case "apiVersion":
			version = word
		case "fieldsType":
			form = word
		default:
			return o, false
		}
	}
	if version != m.version || form != "FieldsV1" || o.operation != operationApply && o.operation != operationUpdate ||
		o.name == "" || content == nil {
		return o, false
	}
	var err error
	o.fields, err = m.cache.ofTree(content)
	return o, err == nil
}

// write sets an object's managers. entries are those of the object from which the managers come.
func (m *MapManager) write(u *unstructured.Unstructured, entries []any, managers owners) {
	metadata, ok := u.Object["metadata"].(map[string]any)
	if len(managers) == 0 {
		delete(metadata, "managedFields")
		return
	}
	managers.sort()
	list := make([]any, len(managers))
	for i, o := range managers {
		if o.at >= 0 && !o.dirty {
			list[i] = entries[o.at]
			continue
		}
		entry := make(map[string]any, 7)
		entry["manager"], entry["operation"], entry["apiVersion"] = o.name, o.operation, m.version
		entry["fieldsType"], entry["fieldsV1"] = "FieldsV1", o.fields.tree
		if o.time != 0 {
			entry["time"] = time.Unix(o.time, 0).UTC().Format(time.RFC3339)
		}
		if o.subresource != "" {
			entry["subresource"] = o.subresource
		}
		list[i] = entry
	}
	if !ok {
		metadata = map[string]any{}
		u.Object["metadata"] = metadata
	}
	metadata["managedFields"] = list
}
