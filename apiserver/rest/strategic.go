package rest

import (
	"math/bits"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxComparisons limits how many elements Kubernetes' library compares while it applies one
// strategic merge patch. The library searches the whole merged list for each element, also while it
// sorts, so n elements cost n²·log n comparisons of tens of nanoseconds each. The limit corresponds
// to one or two seconds, or a list of two thousand elements.
const maxComparisons = 64 << 20

// minElementBytes is the minimum size in bytes of a list element with its comma.
const minElementBytes = 2

// errTooManyComparisons is the error for a strategic merge patch beyond maxComparisons.
func errTooManyComparisons() error {
	return apierrors.NewRequestEntityTooLargeError(
		"the lists that the strategic merge patch merges have too many elements")
}

// mayBeSlow reports whether an object and a patch of this size can hold lists that exceed
// maxComparisons. Nearly all patches are too small for that.
func mayBeSlow(bytes int) bool { return sortCost(bytes/minElementBytes) > maxComparisons }

// sortCost returns the number of comparisons for a merged list of n elements.
func sortCost(n int) int { return n * n * bits.Len(uint(n)) }

// comparisons counts the comparisons of a strategic merge, up to maxComparisons.
type comparisons struct{ count int }

func (c *comparisons) tooMany() bool { return c.count > maxComparisons }

// add counts several merges of a list of n elements.
func (c *comparisons) add(merges, n int) {
	if n >= maxComparisons { // the product would overflow
		c.count = maxComparisons + 1
		return
	}
	if each := sortCost(n); each > 0 && merges > maxComparisons/each {
		c.count = maxComparisons + 1
	} else {
		c.count += merges * each
	}
}

// merge counts the merge of patches into one object. There are several if a list in the patch names
// an element more than once.
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

func (c *comparisons) mergeList(original []any, patches [][]any, schema strategicpatch.LookupPatchMeta,
	meta strategicpatch.PatchMeta) {
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

// keyed returns a list element as an object, with the value of its merge key.
func keyed(element any, key string) (object map[string]any, name any, ok bool) {
	object, _ = element.(map[string]any)
	name, ok = object[key]
	return object, name, ok && (name == nil || reflect.TypeOf(name).Comparable())
}
