package store

import (
	"iter"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the whole state at one revision. It is immutable.
type Snapshot struct {
	revision uint64
	view     view
	retain   retention  // of the store, for its forks
	copying  sync.Mutex // view.copy is for one at a time
}

// Revision is the revision of the newest write it contains.
func (sn *Snapshot) Revision() uint64 { return sn.revision }

// Get returns an object, or nil when there is none.
func (sn *Snapshot) Get(key Key) *Object {
	obj, _ := sn.view.objects.Get(key.path())
	return obj
}

// Scan yields the objects of a resource in key order; namespace "" means all namespaces.
// It begins after the given key if that is not the zero Key.
func (sn *Snapshot) Scan(resource, namespace string, after Key) iter.Seq[*Object] {
	return func(yield func(*Object) bool) { sn.scan(resource, namespace, after, yield) }
}

// scan returns false when yield did.
func (sn *Snapshot) scan(resource, namespace string, after Key, yield func(*Object) bool) bool {
	prefix := resource + separator
	if namespace != "" {
		prefix += namespace + separator
	}
	from := prefix
	if after != (Key{}) {
		from = max(from, after.path()+separator) // the least path above it
	}
	goOn := true
	sn.view.objects.Ascend(from, func(path string, obj *Object) bool {
		if !strings.HasPrefix(path, prefix) {
			return false
		}
		goOn = yield(obj)
		return goOn
	})
	return goOn
}

// Count returns how many objects of a resource there are, in one namespace or ("") in all.
// O(1) for all namespaces; for one it costs a scan.
func (sn *Snapshot) Count(resource, namespace string) int {
	if namespace == "" {
		n, _ := sn.view.counts.Get(resource)
		return n
	}
	n := 0
	sn.scan(resource, namespace, Key{}, func(*Object) bool { n++; return true })
	return n
}

// Resources yields the Resource names that have objects, in order.
func (sn *Snapshot) Resources() iter.Seq[string] {
	return func(yield func(string) bool) {
		sn.view.counts.Scan(func(resource string, _ int) bool { return yield(resource) })
	}
}

// InNamespace yields every object of every resource in a namespace.
func (sn *Snapshot) InNamespace(namespace string) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		if namespace == "" {
			return
		}
		for resource := range sn.Resources() {
			if !sn.scan(resource, namespace, Key{}, yield) {
				return
			}
		}
	}
}

// Dependents yields the objects that name uid as an owner, from an index.
func (sn *Snapshot) Dependents(uid types.UID) iter.Seq[*Object] {
	return func(yield func(*Object) bool) { sn.indexed(sn.view.owners, uid, yield) }
}

// ByUID returns the object with a uid, from an index, or nil.
func (sn *Snapshot) ByUID(uid types.UID) (found *Object) {
	sn.indexed(sn.view.uids, uid, func(obj *Object) bool { found = obj; return false })
	return found
}

func (sn *Snapshot) indexed(in *index, uid types.UID, yield func(*Object) bool) {
	if uid == "" {
		return
	}
	prefix := join(uid, "")
	in.Ascend(prefix, func(entry string, _ struct{}) bool {
		path, ok := strings.CutPrefix(entry, prefix)
		if !ok {
			return false
		}
		obj, _ := sn.view.objects.Get(path)
		return yield(obj)
	})
}

func (sn *Snapshot) fork() *Store {
	return start(sn.copyView(), sn.revision, Config{Retain: sn.retain.events, RetainBytes: sn.retain.bytes})
}

// copyView returns a view of one's own that begins as this state. O(1).
func (sn *Snapshot) copyView() view {
	sn.copying.Lock()
	defer sn.copying.Unlock()
	return sn.view.copy()
}
