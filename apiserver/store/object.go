package store

import (
	"math"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"
)

// Object is one revision of one stored object. All readers share it; it never changes.
type Object struct {
	// Data is the object in its storage version, as JSON. Never change it.
	Data []byte
	// Revision is the revision of the write that produced this state. Data contains it as
	// metadata.resourceVersion.
	Revision uint64
	// Created is the revision of the write that created the object.
	Created uint64
	Key     Key
	Head    Head

	path    string // of Key, whose strings are its substrings
	version span   // of the value of resourceVersion in Data
	memo    memo
	budget  *budget // of the store that made the object; nil: not from a store
}

// Head is the part of an object that the control plane needs without decoding it.
type Head struct {
	UID               types.UID
	Generation        int64
	Labels            map[string]string
	Owners            []Owner
	Finalizers        []string
	DeletionTimestamp time.Time // zero: not being deleted
	CreationTimestamp time.Time
}

// Owner is one owner reference.
type Owner struct {
	APIVersion         string
	Kind               string
	Name               string
	UID                types.UID
	Controller         bool
	BlockOwnerDeletion bool
}

const (
	// objectBytes is the memory of an object in addition to its data, path and head.
	objectBytes = int64(unsafe.Sizeof(Object{}))
	// indexBytes is the memory of the entries of an object in the trees of a view.
	indexBytes = 160
	// eventBytes is the memory of an event without its objects: the struct, and pointers in two
	// logs.
	eventBytes = int64(unsafe.Sizeof(Event{})) + 2*2*8
)

// measure computes the object's size. It is called once, before the object is shared.
func (o *Object) measure() {
	n := objectBytes + int64(cap(o.Data)) + 2*int64(len(o.path)) + o.Head.bytes()
	o.memo.size = uint32(min(n, math.MaxUint32))
}

// measure computes the sizes of a new event and its object.
func (e *Event) measure() {
	e.Object.measure()
	e.memo.size = e.Object.memo.size
}

// bytes returns the memory of the object, estimated within a quarter.
func (o *Object) bytes() int64 { return int64(o.memo.size) }

// bytes returns the memory of what a head refers to.
func (h *Head) bytes() int64 {
	n := int64(len(h.UID))
	if len(h.Labels) > 0 {
		// A map has groups of eight entries.
		n += 48 + int64((len(h.Labels)+7)/8)*(8+8*2*16)
	}
	for name, value := range h.Labels {
		n += int64(len(name)+len(value)) + 16
	}
	for i := range h.Owners {
		o := &h.Owners[i]
		n += int64(unsafe.Sizeof(*o)) + int64(len(o.APIVersion)+len(o.Kind)+len(o.Name)+len(o.UID))
	}
	for _, f := range h.Finalizers {
		n += 16 + int64(len(f))
	}
	return n
}

// bytes returns the memory that only the logs and the event's readers need: of the object that the
// event has replaced or deleted. The new object is in the state, and when that ends, it is the
// replaced object of a later event.
func (e *Event) bytes() int64 {
	n := eventBytes
	if e.Prev != nil {
		n += e.Prev.bytes()
	}
	if e.Type == Deleted {
		n += e.Object.bytes()
	}
	return n
}
