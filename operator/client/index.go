package client

import (
	"fmt"
	"maps"
	"slices"
)

// MatchingIndex selects objects that have these values in these indexes, by the names of the
// indexes (see operator.Index and informer.Informer.AddIndex). Multiple options must all match.
// Only reads from a cache support it: the error wraps ErrNoIndex if the cache has no such index for
// the kind and object type, and if the read goes to the server.
type MatchingIndex map[string]string

// IndexValue is a value of an index.
type IndexValue struct{ Name, Value string }

func (m MatchingIndex) applyList(o *ListOptions) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		o.Indexes = append(o.Indexes[:len(o.Indexes):len(o.Indexes)], IndexValue{name, m[name]})
	}
}

// checkIndexes returns an error if a request to the server would have to use an index.
func (o ListOptions) checkIndexes() error {
	if len(o.Indexes) == 0 {
		return nil
	}
	return fmt.Errorf("index %q: %w: the server has no indexes; read from a cache that has the object's namespace",
		o.Indexes[0].Name, ErrNoIndex)
}
