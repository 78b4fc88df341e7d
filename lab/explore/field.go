package explore

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// variation is a field and a value for it, as JSON.
type variation struct{ field, value string }

// variations returns other values for the fields of an object, from its schema: it sets unset
// fields, removes optional fields, and gives numbers, strings and lists values at their limits.
// Whether a value is valid is for the server to decide. It does not vary fields of metadata and
// status.
func variations(schema, object map[string]any) []variation {
	var all []variation
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		child, _ := properties[name].(map[string]any)
		vary(&all, child, name, object[name], requires(schema, name))
	}
	return all
}

func requires(schema map[string]any, name string) bool {
	required, _ := schema["required"].([]any)
	return slices.Contains(required, any(name))
}

// vary adds the variations of a field and of the fields below it.
func vary(all *[]variation, schema map[string]any, path string, value any, required bool) {
	if strings.Contains(strings.TrimPrefix(path, "."), "=") || strings.Contains(path, " ") {
		return // a plan cannot contain such a name
	}
	var values []any
	if value != nil && !required {
		values = append(values, nil)
	}
	kind, _ := schema["type"].(string)
	if schema["x-kubernetes-int-or-string"] == true {
		kind = "integer"
	}
	enum, _ := schema["enum"].([]any)
	switch {
	case len(enum) > 0:
		values = append(values, enum...)
	case kind == "boolean":
		values = append(values, value != true)
	case kind == "integer", kind == "number":
		values = append(values, numbersOf(schema, value)...)
	case kind == "string":
		values = append(values, stringsOf(schema, value)...)
	case kind == "array":
		values = append(values, []any{})
		elements, _ := value.([]any)
		items, _ := schema["items"].(map[string]any)
		for i, element := range elements[:min(len(elements), 1)] {
			vary(all, items, path+"."+strconv.Itoa(i), element, true)
		}
	case kind == "object" || schema["properties"] != nil:
		if value == nil {
			values = append(values, map[string]any{})
			break
		}
		fields, _ := value.(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			child, _ := properties[name].(map[string]any)
			vary(all, child, path+"."+name, fields[name], requires(schema, name))
		}
	}
	for _, v := range values {
		if reflect.DeepEqual(v, value) {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			continue // such a value does not come from JSON
		}
		if add := (variation{path, string(text)}); !slices.Contains(*all, add) {
			*all = append(*all, add)
		}
	}
}

// numbersOf returns unusual numbers. They are small, because a number may determine how many
// objects an operator creates.
func numbersOf(schema map[string]any, value any) []any {
	values := []any{int64(0), int64(1), int64(-1)}
	if n, ok := value.(int64); ok {
		values = append(values, n+1)
	}
	const large = 100
	for _, limit := range []string{"minimum", "maximum"} {
		if n, ok := schema[limit].(int64); ok && n < large {
			values = append(values, n)
		}
	}
	return values
}

// stringsOf returns unusual strings.
func stringsOf(schema map[string]any, value any) []any {
	switch schema["format"] {
	case "date-time":
		return []any{"1999-12-31T23:59:59Z", "2100-01-01T00:00:00Z"}
	case "duration":
		return []any{"0s", "1s"}
	}
	values := []any{"", "x"}
	if s, ok := value.(string); ok && s != "" {
		values = append(values, s+"x")
	}
	// Longer than labels and the names of most objects may be.
	return append(values, strings.Repeat("a", 64))
}

// leaves returns the fields of a tree that contain no other fields, with a changed value for each.
func leaves(all *[]variation, path string, value any) {
	var other any
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !strings.ContainsAny(name, ". =") {
				leaves(all, strings.TrimPrefix(path+"."+name, "."), v[name])
			}
		}
		return
	case []any:
		for i, element := range v {
			leaves(all, path+"."+strconv.Itoa(i), element)
		}
		return
	case bool:
		other = !v
	case int64:
		other = v + 1
	case string:
		other = v + "x"
		if strings.HasPrefix(path, "data.") {
			other = "eA==" // is also valid in Secrets
		}
	default:
		return
	}
	if text, err := json.Marshal(other); err == nil {
		*all = append(*all, variation{path, string(text)})
	}
}
