package store

import (
	"strings"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"
)

// view is a state in copy-on-write trees. A driver changes one; every Snapshot has a frozen one.
//
//	objects  resource \0 namespace / name           → object
//	counts   resource                               → number of objects
//	uids     uid       \0 resource \0 namespace / name
//	owners   owner uid \0 resource \0 namespace / name
//
// The indexes hold paths, not objects, so that a write that changes neither uid nor owners does not
// change them.
type view struct {
	objects *btree.Map[string, *Object]
	counts  *btree.Map[string, int]
	uids    *index
	owners  *index
	bytes   int64 // memory of the objects, with their entries in the trees
}

type index = btree.Map[string, struct{}]

// degree is half the width of a tree node. A write copies one node per level; a read searches one
// per level.
const degree = 16

func newView() view {
	return view{
		objects: btree.NewMap[string, *Object](degree),
		counts:  btree.NewMap[string, int](degree),
		uids:    btree.NewMap[string, struct{}](degree),
		owners:  btree.NewMap[string, struct{}](degree),
	}
}

// copy is O(1). It marks v as shared, so that later writes to v copy what they change. It must not
// run concurrently on one view.
func (v *view) copy() view {
	return view{v.objects.Copy(), v.counts.Copy(), v.uids.Copy(), v.owners.Copy(), v.bytes}
}

func (v *view) apply(e *Event) { v.replace(e.Prev, e.state()) }
func (v *view) undo(e *Event)  { v.replace(e.state(), e.Prev) }

// state returns the object in the tree after the event: nil for a deletion.
func (e *Event) state() *Object {
	if e.Type == Deleted {
		return nil
	}
	return e.Object
}

// replace replaces old with next. One of them may be nil; otherwise, they have the same path.
func (v *view) replace(old, next *Object) {
	switch {
	case next == nil:
		v.objects.Delete(old.path)
		v.count(old.Key.Resource, -1)
	case old == nil:
		v.objects.Set(next.path, next)
		v.count(next.Key.Resource, 1)
	default:
		v.objects.Set(next.path, next)
	}
	if old != nil {
		v.bytes -= old.bytes() + indexBytes
	}
	if next != nil {
		v.bytes += next.bytes() + indexBytes
	}
	if old == nil || next == nil || !sameReferences(&old.Head, &next.Head) {
		if old != nil {
			each(old, func(uid types.UID, in func(*view) *index) { in(v).Delete(join(uid, old.path)) })
		}
		if next != nil {
			each(next, func(uid types.UID, in func(*view) *index) { in(v).Set(join(uid, next.path), struct{}{}) })
		}
	}
}

func (v *view) count(resource string, change int) {
	n, _ := v.counts.Get(resource)
	if n += change; n == 0 {
		v.counts.Delete(resource)
	} else {
		v.counts.Set(resource, n)
	}
}

// each calls enter for every index entry of an object.
func each(obj *Object, enter func(uid types.UID, in func(*view) *index)) {
	if obj.Head.UID != "" {
		enter(obj.Head.UID, func(v *view) *index { return v.uids })
	}
	for i := range obj.Head.Owners {
		if uid := obj.Head.Owners[i].UID; uid != "" {
			enter(uid, func(v *view) *index { return v.owners })
		}
	}
}

func sameReferences(a, b *Head) bool {
	if a.UID != b.UID || len(a.Owners) != len(b.Owners) {
		return false
	}
	for i := range a.Owners {
		if a.Owners[i].UID != b.Owners[i].UID {
			return false
		}
	}
	return true
}

// separator sorts before every character that the names of resources may contain, so that the paths
// of a resource are together.
const separator = "\x00"

// slash separates namespace and name. It sorts after the hyphen, so that paths have the order of
// Kubernetes' keys in etcd: the objects of the namespace a-b come before those of a.
const slash = "/"

func join(uid types.UID, path string) string { return string(uid) + separator + path }

func (k Key) path() string { return k.Resource + separator + k.Namespace + slash + k.Name }

// split returns the key whose strings are substrings of path, so that one allocation holds all.
func split(path string) Key {
	resource, rest, _ := strings.Cut(path, separator)
	namespace, name, _ := strings.Cut(rest, slash)
	return Key{resource, namespace, name}
}

// valid reports whether the key has a resource and a name, and a path that no other key has.
func (k Key) valid() bool {
	return k.Resource != "" && k.Name != "" && !strings.Contains(k.Resource, separator) &&
		!strings.Contains(k.Namespace, separator) && !strings.Contains(k.Namespace, slash) &&
		!strings.Contains(k.Name, separator)
}
