package serve

import (
	"sync"

	"kelson.dev/kubernetes/builtin"
	"kelson.dev/lab/history"
)

// describe returns the description of a built-in kind for a history.
func describe(resource string) (history.Resource, bool) {
	found, ok := described()[resource]
	return found, ok
}

var described = sync.OnceValue(func() map[string]history.Resource {
	byName := map[string]history.Resource{}
	all, err := builtin.Resources(builtin.Config{})
	if err != nil {
		return nil // the history derives the names from the objects
	}
	for _, r := range all {
		one := history.Resource{Group: r.Group, Version: r.StorageVersion, Resource: r.Plural, Kind: r.Kind,
			Singular: r.Singular, ShortNames: r.ShortNames, Namespaced: r.Namespaced}
		byName[one.Name()] = one
	}
	return byName
})
