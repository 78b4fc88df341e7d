package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	toolscache "k8s.io/client-go/tools/cache"

	"kelson.dev/operator/client"
)

// Programs assert that informers of controller-runtime are SharedIndexInformers of client-go, to
// read the store. This file has the methods for it.
var (
	_ toolscache.SharedIndexInformer = (*Informer)(nil)
	_ toolscache.Indexer             = indexer{}
)

var (
	errReadOnly = errors.New("the store of an informer is read-only")
	errRunning  = errors.New("informer is already configured by its cache")
)

// GetStore returns the objects. They are shared: callers must not modify them.
func (i *Informer) GetStore() toolscache.Store { return indexer{i} }

// GetIndexer returns the objects. They are shared: callers must not modify them. The indexes are
// those of AddIndexers and the one by namespace.
func (i *Informer) GetIndexer() toolscache.Indexer { return indexer{i} }

// GetController returns the informer itself.
func (i *Informer) GetController() toolscache.Controller { return i }

// Run returns when the informer or stop ends. The cache runs the informer.
func (i *Informer) Run(stop <-chan struct{}) {
	select {
	case <-stop:
	case <-i.stopped:
	}
}

// RunWithContext is Run with a context.
func (i *Informer) RunWithContext(ctx context.Context) { i.Run(ctx.Done()) }

// LastSyncResourceVersion returns the resourceVersion up to which the informer has all changes;
// empty if it is not known.
func (i *Informer) LastSyncResourceVersion() string {
	var oldest uint64
	for _, part := range i.parts {
		version, err := strconv.ParseUint(part.Version(), 10, 64)
		if err != nil {
			return ""
		}
		if oldest == 0 || version < oldest {
			oldest = version
		}
	}
	return strconv.FormatUint(oldest, 10)
}

// SetWatchErrorHandler returns an error; see cache.Options.DefaultWatchErrorHandler.
func (i *Informer) SetWatchErrorHandler(toolscache.WatchErrorHandler) error { return errRunning }

// SetWatchErrorHandlerWithContext returns an error; see cache.Options.DefaultWatchErrorHandler.
func (i *Informer) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errRunning
}

// SetTransform returns an error; see cache.Options.
func (i *Informer) SetTransform(toolscache.TransformFunc) error { return errRunning }

// indexer presents an informer as a store of client-go. Keys are namespace/name.
type indexer struct{ informer *Informer }

func (x indexer) objects() []client.Object {
	var all []client.Object
	for _, part := range x.informer.parts {
		all = append(all, part.List("")...)
	}
	return all
}

func (x indexer) List() []any { return asAny(x.objects()) }

func asAny(objs []client.Object) []any {
	all := make([]any, len(objs))
	for n, obj := range objs {
		all[n] = obj
	}
	return all
}

func (x indexer) ListKeys() []string { return keysOf(x.objects()) }

func keysOf(objs []client.Object) []string {
	keys := make([]string, len(objs))
	for n, obj := range objs {
		keys[n] = toolscache.MetaObjectToName(obj).String()
	}
	return keys
}

func (x indexer) LastStoreSyncResourceVersion() string { return x.informer.LastSyncResourceVersion() }

func (x indexer) Get(obj any) (any, bool, error) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, err
	}
	return x.GetByKey(key)
}

func (x indexer) GetByKey(key string) (any, bool, error) {
	namespace, name, err := toolscache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, false, err
	}
	l := x.informer.placement.leafOf(x.informer.namespaced, namespace)
	if l == nil {
		return nil, false, nil
	}
	obj, ok := x.informer.parts[l].Get(client.Key{Namespace: namespace, Name: name})
	if !ok {
		return nil, false, nil
	}
	return obj, true, nil
}

func (x indexer) GetIndexers() toolscache.Indexers {
	x.informer.indexMu.Lock()
	defer x.informer.indexMu.Unlock()
	all := maps.Clone(x.informer.indexes)
	if all == nil {
		all = toolscache.Indexers{}
	}
	all[toolscache.NamespaceIndex] = toolscache.MetaNamespaceIndexFunc
	return all
}

func (x indexer) AddIndexers(indexers toolscache.Indexers) error {
	return x.informer.AddIndexers(indexers)
}

func (x indexer) ByIndex(name, value string) ([]any, error) {
	var all []any
	for _, part := range x.informer.parts {
		if name == toolscache.NamespaceIndex {
			all = append(all, asAny(part.List(value))...)
			continue
		}
		objs, err := part.ByIndex(name, value)
		if err != nil {
			return nil, err
		}
		all = append(all, asAny(objs)...)
	}
	return all, nil
}

func (x indexer) indexFunc(name string) (toolscache.IndexFunc, error) {
	index := x.GetIndexers()[name]
	if index == nil {
		return nil, fmt.Errorf("index with name %s does not exist", name)
	}
	return index, nil
}

func (x indexer) Index(name string, obj any) ([]any, error) {
	index, err := x.indexFunc(name)
	if err != nil {
		return nil, err
	}
	values, err := index(obj)
	if err != nil {
		return nil, err
	}
	var all []any
	for _, value := range values {
		objs, err := x.ByIndex(name, value)
		if err != nil {
			return nil, err
		}
		for _, obj := range objs {
			if !slices.Contains(all, obj) {
				all = append(all, obj)
			}
		}
	}
	return all, nil
}

func (x indexer) IndexKeys(name, value string) ([]string, error) {
	objs, err := x.ByIndex(name, value)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(objs))
	for n, obj := range objs {
		keys[n] = toolscache.MetaObjectToName(obj.(client.Object)).String()
	}
	return keys, nil
}

func (x indexer) ListIndexFuncValues(name string) []string {
	index, err := x.indexFunc(name)
	if err != nil {
		return nil
	}
	found := map[string]bool{}
	for _, obj := range x.objects() {
		values, err := index(obj)
		if err != nil {
			continue // AddIndexers has panicked for it
		}
		for _, value := range values {
			found[value] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Add, Update, Delete, Replace and Resync are for the writer of a store, which is the informer.
func (x indexer) Add(any) error               { return errReadOnly }
func (x indexer) Update(any) error            { return errReadOnly }
func (x indexer) Delete(any) error            { return errReadOnly }
func (x indexer) Replace([]any, string) error { return errReadOnly }
func (x indexer) Resync() error               { return errReadOnly }
func (x indexer) Bookmark(string)             {}
