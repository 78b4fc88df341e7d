package rest

import (
	"math/bits"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxComparisons bounds how many elements Kubernetes' library compares while it applies one strategic merge patch. It looks up each element of a
// merged list in the whole list, also while it sorts: n elements cost n²·log n comparisons, of tens of nanoseconds each. The bound
// is one or two seconds, or a list of two thousand elements.
const maxComparisons = 64 << 20

// leastElement is the size in bytes that an element of a list has at least, with its comma.
const leastElement = 2

// errTooManyComparisons is the answer to a strategic merge patch beyond maxComparisons.
func errTooManyComparisons() error {
	return apierrors.NewRequestEntityTooLargeError("the lists that the strategic merge patch merges have too many elements")
}

// mayBeSlow reports whether so many bytes of object and patch can hold lists that exceed maxComparisons. Small patches of small objects,
// nearly all of them, need no closer look.
func mayBeSlow(bytes int) bool { return sorting(bytes/leastElement) > maxComparisons }

// sorting is how many comparisons a merged list of n elements costs.
func sorting(n int) int { return n * n * bits.Len(uint(n)) }

// comparisons counts what a strategic merge costs. It stops at maxComparisons.
type comparisons struct{ count int }

func (c *comparisons) tooMany() bool { return c.count > maxComparisons }

// add counts so many merges of a list of n elements.
func (c *comparisons) add(merges, n int) {
	if n >= maxComparisons { // the product would overflow
		c.count = maxComparisons + 1
		return
	}
	if each := sorting(n); each > 0 && merges > maxComparisons/each {
		c.count = maxComparisons + 1
	} else {
		c.count += merges * each
	}
}

// merge counts the merge of several patches into one object. They are several where a list of a patch names an element more than once.
func (c *comparisons) merge(original map[string]any, patches []map[string]any, schema strategicpatch.LookupPatchMeta) {
	maps, lists := map[string][]map[string]any{}, map[string][][]any{}
	for _, patch := range patches {
		for key, v := range patch {
			switch v := v.(type) {
			case map[string]any:
				maps[key] = append(maps[key], v)
			case []any:
				key = strings.TrimPrefix(strings.TrimPrefix(key, "$setElementOrder/"), "$deleteFromPrimitiveList/")
				lists[key] = append(lists[key], v)
			}
		}
	}
	for key, patches := range maps {
		if c.tooMany() {
			return
		}
		if sub, _, err := schema.LookupPatchMetadataForStruct(key); err == nil {
			object, _ := original[key].(map[string]any)
			c.merge(object, patches, sub)
		}
	}
	for key, patches := range lists {
		if c.tooMany() {
			return
		}
		if sub, meta, err := schema.LookupPatchMetadataForSlice(key); err == nil {
			list, _ := original[key].([]any)
			c.mergeList(list, patches, sub, meta)
		}
	}
}

func (c *comparisons) mergeList(original []any, patches [][]any, schema strategicpatch.LookupPatchMeta, meta strategicpatch.PatchMeta) {
	merged := false
	for _, strategy := range meta.GetPatchStrategies() {
		merged = merged || strategy == "merge"
	}
	n := len(original)
	for _, patch := range patches {
		n += len(patch)
	}
	if merged {
		c.add(len(patches), n)
	}
	key := meta.GetPatchMergeKey()
	if !merged || key == "" || c.tooMany() {
		return
	}
	present := make(map[any]map[string]any, len(original))
	for _, element := range original {
		if object, name, ok := keyed(element, key); ok && present[name] == nil {
			present[name] = object
		}
	}
	changed := map[any][]map[string]any{}
	for _, patch := range patches {
		for _, element := range patch {
			if object, name, ok := keyed(element, key); ok {
				changed[name] = append(changed[name], object)
			}
		}
	}
	for name, patches := range changed {
		if c.tooMany() {
			return
		}
		c.merge(present[name], patches, schema)
	}
}

// keyed gives an element of a list and what it is known by.
func keyed(element any, key string) (object map[string]any, name any, ok bool) {
	object, _ = element.(map[string]any)
	name, ok = object[key]
	return object, name, ok && (name == nil || reflect.TypeOf(name).Comparable())
}
