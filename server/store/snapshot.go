package store

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the whole state at one revision. It is immutable.
type Snapshot struct {
	revision uint64
	// (tree, owner index and counts: see below)
}

// Revision is the revision of the newest write it contains.
func (sn *Snapshot) Revision() uint64 { return sn.revision }

// Get returns an object, or nil when there is none.
func (sn *Snapshot) Get(key Key) *Object { panic("TODO") }

// Scan yields the objects of a resource in key order; namespace "" means all namespaces.
// It begins after the given key if that is not the zero Key.
func (sn *Snapshot) Scan(resource, namespace string, after Key) iter.Seq[*Object] { panic("TODO") }

// Count returns how many objects of a resource there are, in one namespace or ("") in all.
// O(1) for all namespaces; for one it may cost a scan.
func (sn *Snapshot) Count(resource, namespace string) int { panic("TODO") }

// Resources yields the Resource names that have objects, in order.
func (sn *Snapshot) Resources() iter.Seq[string] { panic("TODO") }

// InNamespace yields every object of every resource in a namespace.
func (sn *Snapshot) InNamespace(namespace string) iter.Seq[*Object] { panic("TODO") }

// Dependents yields the objects that name uid as an owner, from an index.
func (sn *Snapshot) Dependents(uid types.UID) iter.Seq[*Object] { panic("TODO") }

// ByUID returns the object with a uid, from an index, or nil.
func (sn *Snapshot) ByUID(uid types.UID) *Object { panic("TODO") }

func (sn *Snapshot) fork() *Store { panic("TODO") }
