package builtin_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// randomTree generates random objects from their schemas.
type randomTree struct {
	*rand.Rand
	types    upstream.TypeConverter
	schema   *smd.Schema
	valid    bool // generate only valid, ordinary values
	nonEmpty bool // generate no empty values
	bytes    bool // the member being generated is base64
	depth    int
}

func (r *randomTree) object(t *testing.T, kind schema.GroupVersionKind) map[string]any {
	typed := &unstructured.Unstructured{}
	typed.SetGroupVersionKind(kind)
	known, err := r.types.ObjectToTyped(typed)
	if err != nil {
		t.Skip("no schema: ", err)
	}
	r.schema = known.Schema()
	tree, _ := r.value(known.TypeRef()).(map[string]any)
	if tree == nil {
		tree = map[string]any{}
	}
	tree["apiVersion"], tree["kind"] = kind.GroupVersion().String(), kind.Kind
	metadata, _ := tree["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		tree["metadata"] = metadata
	}
	if r.valid || r.IntN(4) > 0 {
		delete(metadata, "managedFields")
	}
	if r.nonEmpty {
		delete(metadata, "uid")
	}
	metadata["name"] = "one"
	return tree
}

var randomWords = []string{"a", "b", "c", "web", "app.example.com/x", "TCP", "UDP", "Always", "x-1"}

// encodedMembers are base64 strings; their schemas do not say so.
var encodedMembers = []string{"binaryData", "caBundle", "request", "certificate", "data"}

// rareMembers are set by servers, seldom by clients.
var rareMembers = []string{"status", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"generation", "resourceVersion", "selfLink", "namespace"}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case int64:
		return v == 0
	case bool:
		return !v
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func (r *randomTree) word() string {
	if r.bytes {
		return []string{"", "dGVzdA==", "YQ=="}[r.IntN(3)]
	}
	if !r.valid && r.IntN(20) == 0 {
		return []string{"", "a<b", `q"q`, "ä", `back\slash`, "new\nline"}[r.IntN(6)]
	}
	return randomWords[r.IntN(len(randomWords))]
}

func (r *randomTree) value(ref smd.TypeRef) any {
	r.depth++
	defer func() { r.depth-- }()
	if !r.nonEmpty && r.IntN(60) == 0 && !(r.valid && r.IntN(3) > 0) {
		return nil
	}
	if !r.valid && r.IntN(150) == 0 {
		return []any{int64(7), "odd", true, map[string]any{"odd": "x"}, []any{"odd"}}[r.IntN(5)]
	}
	if ref.NamedType != nil {
		name := *ref.NamedType
		switch name[strings.LastIndexByte(name, '.')+1:] {
		case "Quantity":
			if r.nonEmpty {
				return []any{"1", "100m", "1536Mi"}[r.IntN(3)]
			}
			return []any{"1", "100m", "1.5Gi", "0", int64(2), "0.1"}[r.IntN(6)]
		case "Time":
			return "2026-01-02T03:04:05Z"
		case "MicroTime":
			return "2026-01-02T03:04:05.000006Z"
		case "Duration":
			return "1h0m0s"
		case "IntOrString":
			return []any{int64(80), "http", "25%", int64(0)}[r.IntN(4)]
		case "RawExtension", "FieldsV1", "JSON":
			if r.valid {
				return nil
			}
			return map[string]any{"f:a": map[string]any{}}
		}
	}
	a, ok := r.schema.Resolve(ref)
	switch {
	case !ok:
		return nil
	case a.Scalar != nil:
		switch *a.Scalar {
		case smd.Numeric:
			return int64(r.IntN(4))
		case smd.Boolean:
			return r.IntN(2) == 0
		}
		return r.word()
	case a.List != nil:
		out := []any{}
		for range r.IntN(4) {
			element := r.value(a.List.ElementType)
			if element == nil && r.valid {
				continue
			}
			if members, ok := element.(map[string]any); ok {
				for _, key := range a.List.Keys {
					if members[key] == nil {
						delete(members, key)
					}
				}
				if element, _ := r.schema.Resolve(a.List.ElementType); r.nonEmpty && element.Map != nil {
					for _, key := range a.List.Keys {
						if f, ok := element.Map.FindField(key); ok && members[key] == nil &&
							(f.Default == nil || f.Default == "") {
							members[key] = r.value(f.Type)
						}
					}
				}
			}
			if r.valid && a.List.ElementRelationship == smd.Associative &&
				slices.ContainsFunc(out, func(other any) bool { return sameKeys(a.List.Keys, element, other) }) {
				continue
			}
			out = append(out, element)
		}
		return out
	case a.Map != nil:
		out := map[string]any{}
		for _, f := range a.Map.Fields {
			if r.IntN(3+r.depth) > 2 || r.depth > 9 ||
				r.nonEmpty && (slices.Contains(rareMembers, f.Name) || r.IntN(2) == 0) {
				continue
			}
			r.bytes = r.bytes || slices.Contains(encodedMembers, f.Name)
			value := r.value(f.Type)
			r.bytes = false
			if !r.nonEmpty || !empty(value) {
				out[f.Name] = value
			}
		}
		if a.Map.ElementType != (smd.TypeRef{}) {
			for range r.IntN(3) {
				out[r.word()] = r.value(a.Map.ElementType)
			}
		} else if !r.valid && r.IntN(100) == 0 {
			out["unheardOf"] = "x"
		}
		return out
	}
	return nil
}

// alter changes or removes a random string or number of a tree.
func (r *randomTree) alter(tree map[string]any) {
	names := slices.Sorted(maps.Keys(tree))
	for range 4 {
		name := names[r.IntN(len(names))]
		switch v := tree[name].(type) {
		case map[string]any:
			if len(v) > 0 {
				r.alter(v)
				return
			}
		case []any:
			if len(v) == 0 {
				continue
			}
			i := r.IntN(len(v))
			if element, ok := v[i].(map[string]any); ok && len(element) > 0 {
				r.alter(element)
				return
			}
		case string:
			switch {
			case name == "apiVersion" || name == "kind":
				continue
			case r.IntN(6) == 0:
				delete(tree, name)
			case strings.HasSuffix(v, "=") || strings.HasSuffix(v, "Z"):
				continue
			default:
				tree[name] = r.word()
			}
			return
		case int64:
			tree[name] = int64(r.IntN(5))
			return
		case bool:
			tree[name] = !v
			return
		}
	}
}

func sameKeys(keys []string, a, b any) bool {
	x, isMap := a.(map[string]any)
	y, _ := b.(map[string]any)
	if !isMap {
		return a == b
	}
	for _, key := range keys {
		if fmt.Sprint(x[key]) != fmt.Sprint(y[key]) {
			return false
		}
	}
	return true
}

// removeSome removes a third of the members of an object's parts, except for keys of list elements.
func (r *randomTree) removeSome(tree map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		v, ok := tree[name].(map[string]any)
		if !ok {
			continue
		}
		if name != "metadata" && r.IntN(3) == 0 {
			delete(tree, name)
			continue
		}
		r.removeSome(v)
	}
}
