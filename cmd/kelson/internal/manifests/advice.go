package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/toolchain/similar"
)

// undeclared matches the fields that a server-side apply refuses because the schema lacks them.
var undeclared = regexp.MustCompile(`(\.\S+): field not declared in schema`)

// shownFields is how many fields of a schema a message lists.
const shownFields = 12

// Advice returns what the author of an object should change after a server refused it with err. It
// begins with "; " and follows the error in a message. It is "" if the error says all. definition
// returns the CustomResourceDefinition of the object, or nil; Advice calls it only if it needs one.
func Advice(obj *unstructured.Unstructured, err error, definition func() *unstructured.Unstructured) string {
	text := err.Error()
	if strings.Contains(text, "protected groups must have approval annotation") {
		return "; Kubernetes protects groups that end in .k8s.io and .kubernetes.io: use another group, or, for development " +
			`only, the marker +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved"`
	}
	if found := undeclared.FindAllStringSubmatch(text, -1); len(found) > 0 {
		crd := definition()
		if crd == nil {
			return ""
		}
		schema := schemaOf(crd, obj.GroupVersionKind().Version)
		var advice strings.Builder
		for _, f := range found {
			advice.WriteString(adviseField(schema, f[1]))
		}
		return advice.String()
	}
	return adviseChanged(obj, err)
}

// adviseChanged names the refused fields that the object does not set: the server validates objects
// after defaults and mutating webhooks.
func adviseChanged(obj *unstructured.Unstructured, err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		path := steps(cause.Field)
		if cause.Type == metav1.CauseTypeFieldValueRequired || len(path) == 0 || path[0] != "spec" || sets(obj.Object, path) {
			continue
		}
		return fmt.Sprintf("; the file does not set %s: a mutating webhook or a default does", cause.Field)
	}
	return ""
}

// adviseField names a field of the schema that is similar to the one at a path, or all fields.
func adviseField(schema map[string]any, path string) string {
	all := steps(path)
	if len(all) == 0 {
		return ""
	}
	for _, step := range all[:len(all)-1] {
		schema = below(schema, step)
	}
	properties, _ := schema["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(properties))
	if near := similar.Nearest(all[len(all)-1], names); near != "" {
		return fmt.Sprintf("; did you mean %s?", strings.TrimPrefix(strings.TrimSuffix(path, all[len(all)-1])+near, "."))
	}
	if len(names) == 0 || len(names) > shownFields {
		return ""
	}
	parent := cmp.Or(strings.Trim(strings.TrimSuffix(path, all[len(all)-1]), "."), "the object")
	return fmt.Sprintf("; the fields of %s are %s", parent, strings.Join(names, ", "))
}

// schemaOf returns the schema of a version of a definition, or nil.
func schemaOf(crd *unstructured.Unstructured, version string) map[string]any {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["name"] == version {
			schema, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
			return schema
		}
	}
	return nil
}

// below returns the schema of a field, or of the elements of a list or map.
func below(schema map[string]any, step string) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	for _, candidate := range []any{properties[step], schema["items"], schema["additionalProperties"]} {
		if found, ok := candidate.(map[string]any); ok {
			return found
		}
	}
	return nil
}

// sets reports whether a value has a field, and not null, at a path.
func sets(value any, path []string) bool {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil {
				return true // an element that its keys identify
			}
			if i < 0 || i >= len(v) {
				return false
			}
			value = v[i]
		default:
			return false
		}
	}
	return value != nil
}

// steps splits the path of a field, such as spec.ports[0].name or .spec.labels[a.b/c], into names
// and what is in brackets.
func steps(path string) (all []string) {
	for path != "" {
		end, skip := strings.IndexAny(path, ".["), 0
		if path[0] == '[' {
			path = path[1:]
			end, skip = strings.IndexByte(path, ']'), 1
		}
		if end < 0 {
			end, skip = len(path), 0
		} else if path[end] == '.' {
			skip = 1
		}
		if end > 0 {
			all = append(all, path[:end])
		}
		path = path[end+skip:]
	}
	return all
}
