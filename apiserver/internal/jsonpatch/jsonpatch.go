// Package jsonpatch decodes the JSON patches (RFC 6902) of clients and webhooks, within
// kube-apiserver's limits.
//
//	patch, err := jsonpatch.Decode(body)
//	after, err := patch.Apply(before)
package jsonpatch

import (
	"math"
	"sync/atomic"

	upstream "gopkg.in/evanphx/json-patch.v4"

	"kelson.dev/internal/tree"
)

const (
	// MaxOperations is the maximum number of operations in a patch. Callers enforce it, each with
	// its own error.
	MaxOperations = 10_000
	// maxCopied limits, in bytes, how much the copy operations of a patch may add to an object. A
	// few operations that each double the document would otherwise exhaust memory.
	maxCopied = 3 << 20
	// maxWork limits, in bytes read, the cost of applying a patch. A CustomResourceDefinition of a
	// megabyte needs a tenth of it.
	maxWork = 256 << 20
	// maxShifted limits how many list elements the operations of a patch may copy: each insertion
	// or removal copies the list.
	maxShifted = 256 << 20
)

// Patch is a decoded patch.
type Patch = upstream.Patch

// The limit is a global variable of the library, so it applies to the whole process, including
// MutatingAdmissionPolicies, whose patches Kubernetes' code applies. If an embedding program has
// set a narrower limit, that limit remains.
func init() {
	if limit := atomic.LoadInt64(&upstream.AccumulatedCopySizeLimit); limit <= 0 || limit > maxCopied {
		atomic.StoreInt64(&upstream.AccumulatedCopySizeLimit, maxCopied)
	}
}

// Decode decodes a patch. Operations on the whole document without a value get the value null,
// because the library panics without one.
func Decode(data []byte) (Patch, error) {
	patch, err := upstream.DecodePatch(data)
	for _, op := range patch {
		if _, ok := op["value"]; ok || op == nil {
			continue
		}
		if path, err := op.Path(); err == nil && path == "" {
			op["value"] = nil
		}
	}
	return patch, err
}

// TooDeep reports whether merging a patch into a document, or applying its operations, would take
// too long. The library parses each value again for every level above it that the patch opens, so
// megabytes at a depth of ten thousand levels would take minutes. A patch that opens few levels is
// never too deep, however deep the document is.
func TooDeep(before, patch []byte) bool {
	if size := len(before) + len(patch); size*size < maxWork {
		return false // at any depth
	}
	_, levels := weigh(patch, math.MaxInt)
	levels = max(levels, segments(patch))
	work, depth := weigh(before, levels)
	patchWork, _ := weigh(patch, levels)
	// an operation can insert a value at the deepest level
	return work+patchWork+min(depth, levels)*len(patch) > maxWork
}

// segments returns how many levels the paths in a JSON patch may have: not more than slashes in one
// string. An escape may stand for a slash.
func segments(patch []byte) (most int) {
	count, quoted := 0, false
	for i := 0; i < len(patch); i++ {
		switch c := patch[i]; {
		case c == '"':
			quoted, count = !quoted, 0
		case quoted && c == '\\':
			i++ // also past an escaped quote
			count++
		case quoted && c == '/':
			count++
		}
		most = max(most, count)
	}
	return most
}

// TooLong reports whether applying a patch with this body would take too long because of long
// lists: ten thousand operations on a list of hundreds of thousands of elements copy gigabytes.
func TooLong(before, body []byte, patch Patch) bool {
	if len(patch)*(len(before)+len(body)) < maxShifted {
		return false // at any length
	}
	return len(patch)*(longest(before)+longest(body)) > maxShifted
}

// longest returns the length of the longest list in a document.
func longest(document []byte) int {
	length := 0
	var open []int // per open list its number of elements so far, per open object -1
	for _, mark := range tree.Marks(document) {
		switch mark {
		case '[':
			open = append(open, 1)
		case '{':
			open = append(open, -1)
		case ',':
			if n := len(open); n > 0 && open[n-1] > 0 {
				open[n-1]++
			}
		case '}', ']':
			if n := len(open); n > 0 {
				length = max(length, open[n-1])
				open = open[:n-1]
			}
		}
	}
	return length
}

// weigh returns the bytes read if every byte is read once per level, of which at most a number are
// opened, and the number of levels.
func weigh(document []byte, opened int) (work, depth int) {
	level, from := 0, 0
	for at, mark := range tree.Marks(document) {
		switch mark {
		case '{', '[':
			work += min(level, opened) * (at - from)
			level++
			depth = max(depth, level)
			from = at
		case '}', ']':
			work += min(level, opened) * (at - from)
			level--
			from = at
		}
	}
	return work + min(level, opened)*(len(document)-from), depth
}
