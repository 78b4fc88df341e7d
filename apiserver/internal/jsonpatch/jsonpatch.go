// Package jsonpatch reads the JSON patches (RFC 6902) of clients and webhooks, within kube-apiserver's limits.
//
//	patch, err := jsonpatch.Decode(body)
//	after, err := patch.Apply(before)
package jsonpatch

import (
	"sync/atomic"

	upstream "gopkg.in/evanphx/json-patch.v4"
)

const (
	// MaxOperations bounds the operations of a patch. Its callers refuse what has more, each in its own words.
	MaxOperations = 10_000
	// maxCopied bounds, in bytes, by how much the copy operations of a patch let an object grow. A few of them, each doubling the
	// document, would fill the memory otherwise.
	maxCopied = 3 << 20
	// maxWork bounds, in bytes read, what applying a patch may cost. A CustomResourceDefinition of a megabyte needs a tenth of it.
	maxWork = 256 << 20
	// maxShifted bounds how many elements of lists the operations of a patch may copy: each that inserts or removes one copies the list.
	maxShifted = 256 << 20
)

// Patch is a decoded patch.
type Patch = upstream.Patch

// The limit is the library's own variable, for all of the process. It also holds for the patches of MutatingAdmissionPolicies, which
// Kubernetes' code applies. A program that embeds a control plane may have set a narrower one.
func init() {
	if now := atomic.LoadInt64(&upstream.AccumulatedCopySizeLimit); now <= 0 || now > maxCopied {
		atomic.StoreInt64(&upstream.AccumulatedCopySizeLimit, maxCopied)
	}
}

// Decode reads a patch. Operations on the whole document that lack a value get null: the library panics at them.
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

// TooDeep says whether it would take too long to merge a patch into a document, or to apply its operations: the library reads each
// value again at every level above it, so that megabytes ten thousand levels down would take minutes.
func TooDeep(before, patch []byte) bool {
	if size := len(before) + len(patch); size*size < maxWork {
		return false // however deep
	}
	work, depth := weigh(before)
	more, _ := weigh(patch)
	return work+more+depth*len(patch) > maxWork // an operation can put a value at the deepest place there is
}

// TooLong says whether it would take too long to apply a patch, with its body, to lists as long as those of a document: ten thousand operations on a
// list of hundreds of thousands of elements copy gigabytes.
func TooLong(before, body []byte, patch Patch) bool {
	if len(patch)*(len(before)+len(body)) < maxShifted {
		return false // however long
	}
	return len(patch)*(longest(before)+longest(body)) > maxShifted
}

// longest gives the length of the longest list in a document.
func longest(document []byte) int {
	most := 0
	var open []int // for each list or object that is open, its elements so far; -1: an object
	for i := 0; i < len(document); i++ {
		switch document[i] {
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
				most = max(most, open[n-1])
				open = open[:n-1]
			}
		case '"':
			for i++; i < len(document) && document[i] != '"'; i++ {
				if document[i] == '\\' {
					i++
				}
			}
		}
	}
	return most
}

// weigh gives how many bytes are read if each is read once per level, and how many levels there are.
func weigh(document []byte) (work, depth int) {
	level := 0
	for i := 0; i < len(document); i++ {
		switch document[i] {
		case '{', '[':
			level++
			depth = max(depth, level)
		case '}', ']':
			level--
		case '"':
			begin := i
			for i++; i < len(document) && document[i] != '"'; i++ {
				if document[i] == '\\' {
					i++
				}
			}
			work += level * (i - begin)
		}
		work += level
	}
	return work, depth
}
