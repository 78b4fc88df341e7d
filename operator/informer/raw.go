package informer

import (
	"fmt"
	"slices"

	"kelson.dev/operator/client"
)

// The methods of Informer and Lister have neither a context nor an error result, so they can't wait
// or read from the server as Informers.Client does. They show an own write if the overlay has it.
// If the overlay does not have it, because it was made with another object type, they show the copy
// and set unshown: from then on, it is no longer certain that reads after a write saw the write.

func (i *informer) Get(key client.Key) (client.Object, bool) {
	i = i.current(true)
	obj := i.newestOf(key)
	if obj != nil {
		obj = i.format.whole(obj)
	}
	return obj, obj != nil
}

func (i *informer) newestOf(key client.Key) client.Object {
	i.mu.Lock()
	defer i.mu.Unlock()
	obj, _ := i.objs.Get(key)
	e, isPending := i.pending(key)
	if !isPending {
		return obj
	}
	switch e.kind {
	case gone:
		return nil
	case present:
		if !e.scoped.in {
			return nil
		}
		return e.obj
	}
	i.unshown.Store(true)
	return obj
}

func (i *informer) List(namespace string) []client.Object {
	i = i.current(true)
	i.mu.Lock()
	objs := i.overlaid(i.list(namespace), func(obj client.Object) bool {
		return namespace == "" || obj.GetNamespace() == namespace
	})
	i.mu.Unlock()
	return i.format.allWhole(objs)
}

func (i *informer) Version() string {
	i = i.current(true)
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.version()
}

func (i *informer) ByIndex(name, value string) ([]client.Object, error) {
	i = i.current(true)
	i.mu.Lock()
	objs, err := i.objs.ByIndex(name, value)
	if err == nil {
		objs = i.overlaid(objs, func(obj client.Object) bool {
			values, err := i.objs.IndexOf(name, obj)
			return err == nil && slices.Contains(values, value)
		})
	}
	i.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("informer of %s: %w", i.id.kind, err)
	}
	return i.format.allWhole(objs), nil
}

// overlaid merges objects found in the copy with the overlay. wanted selects the objects of the
// overlay. The caller holds the lock.
func (i *informer) overlaid(found []client.Object, wanted func(client.Object) bool) []client.Object {
	if len(i.written) == 0 {
		return found
	}
	objs := found[:0]
	for _, obj := range found {
		if e, isPending := i.pending(client.KeyOf(obj)); !isPending || e.kind != present && e.kind != gone {
			objs = append(objs, obj)
		}
	}
	for key := range i.written {
		e, isPending := i.pending(key)
		switch {
		case !isPending || e.kind == gone:
		case e.kind != present:
			i.unshown.Store(true)
		case i.partOf(key) != nil && e.scoped.in && wanted(e.obj):
			objs = append(objs, e.obj)
		}
	}
	return objs
}
