package store

import (
	"iter"
	"sort"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the whole state at one revision. It is immutable.
type Snapshot struct {
	revision uint64
	view     view
	config   Config     // Retain and Budget of the store, for forks
	copying  sync.Mutex // serializes view.copy
}

// Revision returns the revision of the newest write in the snapshot.
func (sn *Snapshot) Revision() uint64 { return sn.revision }

// Get returns an object, or nil if it does not exist.
func (sn *Snapshot) Get(key Key) *Object {
	obj, _ := sn.view.objects.Get(key.path())
	return obj
}

// Scan yields the objects of a resource in the order of Kubernetes' keys in etcd, that of the bytes
// of namespace/name; namespace "" means all namespaces. It begins after the given key unless that
// is the zero Key.
func (sn *Snapshot) Scan(resource, namespace string, after Key) iter.Seq[*Object] {
	return func(yield func(*Object) bool) { sn.scan(resource, namespace, after, yield) }
}

// scope returns the path prefix of a resource, in one namespace or, for "", in all.
func scope(resource, namespace string) string {
	if namespace == "" {
		return resource + separator
	}
	return resource + separator + namespace + slash
}

// end returns the least path after all that have a prefix, which ends with a separator or a slash.
func end(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string(prefix[last]+1)
}

// begin returns the least path with the prefix that follows a key, unless that is the zero Key.
func begin(prefix string, after Key) string {
	if after == (Key{}) {
		return prefix
	}
	return max(prefix, after.path()+separator)
}

// lookAhead is how many objects a scan takes from the tree at once. It compares only the path of
// the last one with the prefix. Paths are sorted, so if that one matches, the others need not be
// fetched from memory.
const lookAhead = 32

// scan returns false if yield did.
func (sn *Snapshot) scan(resource, namespace string, after Key, yield func(*Object) bool) bool {
	prefix := scope(resource, namespace)
	ahead, last := make([]*Object, 0, lookAhead), ""
	proceed, more := true, true
	flush := func() {
		more = strings.HasPrefix(last, prefix)
		for _, obj := range ahead {
			if !more && !strings.HasPrefix(obj.path, prefix) {
				break
			}
			if proceed = yield(obj); !proceed {
				more = false
				break
			}
		}
		ahead = ahead[:0]
	}
	sn.view.objects.Ascend(begin(prefix, after), func(path string, obj *Object) bool {
		if ahead, last = append(ahead, obj), path; len(ahead) == lookAhead {
			flush()
		}
		return more
	})
	if more && len(ahead) > 0 {
		flush()
	}
	return proceed
}

// Count returns the number of objects of a resource, in one namespace or, for "", in all.
func (sn *Snapshot) Count(resource, namespace string) int {
	if namespace == "" {
		n, _ := sn.view.counts.Get(resource)
		return n
	}
	return sn.CountAfter(resource, namespace, Key{})
}

// CountAfter returns the number of objects that Scan would yield, in logarithmic time.
func (sn *Snapshot) CountAfter(resource, namespace string, after Key) int {
	prefix := scope(resource, namespace)
	return max(0, sn.rank(end(prefix))-sn.rank(begin(prefix, after)))
}

// rank returns the number of paths less than this one. The tree stores the size of each subtree.
func (sn *Snapshot) rank(path string) int {
	return sort.Search(sn.view.objects.Len(), func(i int) bool {
		at, _, _ := sn.view.objects.GetAt(i)
		return at >= path
	})
}

// Resources yields the names of resources that have objects, in order.
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

// Dependents yields the objects that have an owner with this uid, from an index.
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
	return start(state{sn.copyView(), sn.revision}, sn.config)
}

// copyView returns a copy of the state that the caller may change. O(1).
func (sn *Snapshot) copyView() view {
	sn.copying.Lock()
	defer sn.copying.Unlock()
	return sn.view.copy()
}
