package apiserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// lost returns an error for each field of a decoded object that its conversion to the hub loses. To
// find them, it converts the hub back. A field that is there with another value is not an error,
// because a conversion may normalize values. Clients get these errors like those of unknown fields:
// as warnings or, with fieldValidation=Strict, as the reason why the write is rejected.
//
// The hub must not have its defaults yet. lost changes neither the hub nor the object.
func (k *kind) lost(obj, hub runtime.Object) []error {
	// The Go type identifies the version, because a decoded object may lack apiVersion.
	typ := reflect.TypeOf(obj)
	i := slices.IndexFunc(k.versions, func(v *kindVersion) bool {
		return v.fromHub != nil && reflect.TypeOf(v.proto) == typ
	})
	if i < 0 {
		return nil
	}
	v := k.versions[i]
	back := reflect.New(typ.Elem()).Interface().(runtime.Object)
	if v.fromHub(back, hub) != nil {
		return nil // the response has the error
	}
	back.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	if equality.Semantic.DeepEqual(obj, back) {
		return nil
	}
	before, err := treeOf(obj)
	if err != nil {
		return nil
	}
	after, err := treeOf(back)
	if err != nil {
		return nil
	}
	var paths []string
	missing("", before, after, func(path string) {
		if !slices.Contains(v.drops, index.ReplaceAllString(path, "")) {
			paths = append(paths, path)
		}
	})
	slices.Sort(paths)
	var errs []error
	for _, path := range paths {
		errs = append(errs, fmt.Errorf("field %q is lost in the conversion from %s to %s", path, v.name, k.hub().name))
	}
	return errs
}

// index is the index of an element in a path.
var index = regexp.MustCompile(`\[\d+\]`)

func treeOf(obj runtime.Object) (tree any, err error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return tree, json.Unmarshal(data, &tree)
}

// missing reports the paths of values that are in before and not in after. If a list became
// shorter, it reports the list, because its elements cannot be compared.
func missing(path string, before, after any, report func(path string)) {
	switch before := before.(type) {
	case map[string]any:
		after, _ := after.(map[string]any) // a value of another type counts as missing
		for name, value := range before {
			at := name
			if path != "" {
				at = path + "." + name
			}
			if other, ok := after[name]; ok {
				missing(at, value, other, report)
			} else if !empty(value) {
				report(at)
			}
		}
	case []any:
		after, _ := after.([]any)
		switch {
		case len(after) < len(before):
			report(path)
		case len(after) == len(before):
			for i := range before {
				missing(fmt.Sprintf("%s[%d]", path, i), before[i], after[i], report)
			}
		}
	}
}

// empty reports whether a value means the same as a missing one.
func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}
