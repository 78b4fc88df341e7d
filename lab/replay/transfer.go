package replay

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

func decode(data []byte) (map[string]any, error) {
	if data == nil {
		return nil, nil
	}
	var obj map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err := d.Decode(&obj)
	return obj, err
}

// transfer applies the change between two versions of an object to another version of it. It
// returns nil if the change deletes the object. It keeps the operator's entries in managedFields.
func transfer(before, after, now []byte, operator []string) ([]byte, error) {
	a, err := decode(before)
	if err != nil {
		return nil, err
	}
	b, err := decode(after)
	if err != nil {
		return nil, err
	}
	c, err := decode(now)
	if err != nil {
		return nil, err
	}
	metaBefore, metaAfter, metaNow := metadata(a), metadata(b), metadata(c)
	kept := map[string]any{}
	for _, name := range []string{"uid", "creationTimestamp", "generation", "resourceVersion"} {
		kept[name] = metaNow[name]
	}
	if !reflect.DeepEqual(metaBefore["generation"], metaAfter["generation"]) {
		kept["generation"] = next(metaNow["generation"])
	}
	kept["managedFields"] = slices.Concat(entriesOf(metaAfter, operator, false), entriesOf(metaNow, operator, true))
	result, _ := merged(a, b, c).(map[string]any)
	meta := metadata(result)
	for name, value := range kept {
		if value == nil {
			delete(meta, name)
		} else {
			meta[name] = value
		}
	}
	finalizers, _ := meta["finalizers"].([]any)
	if grace, _ := meta["deletionGracePeriodSeconds"].(json.Number); meta["deletionTimestamp"] != nil &&
		len(finalizers) == 0 && strings.Trim(string(grace), "0") == "" {
		return nil, nil
	}
	return json.Marshal(result)
}

func metadata(obj map[string]any) map[string]any {
	meta, _ := obj["metadata"].(map[string]any)
	return meta
}

func next(generation any) any {
	n, _ := generation.(json.Number)
	i, err := n.Int64()
	if err != nil {
		return generation
	}
	return i + 1
}

// entriesOf returns the entries of managedFields of the operator, or those of all others.
func entriesOf(meta map[string]any, operator []string, ofOperator bool) (found []any) {
	all, _ := meta["managedFields"].([]any)
	for _, e := range all {
		entry, _ := e.(map[string]any)
		manager, _ := entry["manager"].(string)
		if slices.Contains(operator, program(manager)) == ofOperator {
			found = append(found, e)
		}
	}
	return found
}

// merged returns now with the changes from before to after. It matches items of lists by name or
// type; other lists change as a whole.
func merged(before, after, now any) any {
	if reflect.DeepEqual(before, after) {
		return now
	}
	a, _ := before.(map[string]any)
	b, isMap := after.(map[string]any)
	if isMap {
		c, ok := now.(map[string]any)
		if !ok {
			return after
		}
		result := maps.Clone(c)
		for name := range a {
			if _, remains := b[name]; !remains {
				delete(result, name)
			}
		}
		for name, value := range b {
			result[name] = merged(a[name], value, c[name])
		}
		if before == nil {
			return result
		}
		// A field that did not change, and that now does not have, stays missing.
		for name := range b {
			_, existed := a[name]
			if _, exists := c[name]; existed && !exists && reflect.DeepEqual(a[name], b[name]) {
				delete(result, name)
			}
		}
		return result
	}
	if list, isList := after.([]any); isList {
		old, _ := before.([]any)
		current, ok := now.([]any)
		if field := identity(old, list, current); ok && field != "" {
			return mergedList(old, list, current, field)
		}
	}
	return after
}

// identity returns the field that identifies the items of all lists; "" if there is none.
func identity(lists ...[]any) string {
	for _, field := range []string{"name", "type"} {
		if !slices.ContainsFunc(lists, func(list []any) bool {
			names := byIdentity(list, field)
			return len(names) != len(list)
		}) {
			return field
		}
	}
	return ""
}

func byIdentity(list []any, field string) map[string]any {
	names := map[string]any{}
	for _, item := range list {
		m, _ := item.(map[string]any)
		if name, ok := m[field].(string); ok {
			names[name] = item
		}
	}
	return names
}

func mergedList(before, after, now []any, field string) []any {
	a, b, c := byIdentity(before, field), byIdentity(after, field), byIdentity(now, field)
	result := []any{}
	name := func(item any) string { return item.(map[string]any)[field].(string) }
	for _, item := range now {
		_, existed := a[name(item)]
		to, remains := b[name(item)]
		switch {
		case remains:
			result = append(result, merged(a[name(item)], to, item))
		case !existed:
			result = append(result, item)
		}
	}
	for _, item := range after {
		_, existed := a[name(item)]
		if _, exists := c[name(item)]; !exists && !existed {
			result = append(result, item)
		}
	}
	return result
}
