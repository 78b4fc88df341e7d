package store

import (
	"context"
	"fmt"
	"iter"
)

// Backend makes batches of writes durable. The store calls its methods from one goroutine at a
// time.
type Backend interface {
	// Load calls each once for every stored record, in any order; the store keeps the Data. It
	// returns the newest revision ever appended, which may be that of a deletion. The store calls
	// Load once, before any Append.
	Load(each func(Record) error) (revision uint64, err error)
	// Append makes the records durable as one unit and returns when they are (after the sync).
	// Records are in revision order. Append must not change their Data, and may keep it: the store
	// does not change it either. An error that unwraps to ErrNotWritten guarantees that no part of
	// the records is stored, even after a crash; the next call then begins after the same revision.
	// After every other error the outcome is unknown, and the store calls only Close.
	Append(records []Record) error
	// Checkpoint is called after every successful Append and usually returns nil. To replace the
	// log of writes by the current state, it returns a function that makes that state durable as a
	// whole. The store calls the function once, in a separate goroutine, with the records of the
	// state, while Append continues. The function returns early if its context ends, and always
	// before Close is called. If it fails, nothing is lost: the appended writes are still stored.
	Checkpoint() func(context.Context, iter.Seq[Record]) error
	// Close releases files and locks.
	Close() error
}

// Recoverer is a Backend that can tell whether there is space again after an Append failed with
// ErrFull. The store calls Recover in the same goroutine as Append.
type Recoverer interface {
	Recover() error
}

// Record is one write as a Backend stores it.
type Record struct {
	Key      Key
	Revision uint64
	Created  uint64
	// Data is the object with its resourceVersion; nil for a deletion.
	Data []byte
}

// CheckRecord reports whether a store can load a record: whether it contains one object and a valid
// key. It returns the uid of the object, if it has one.
func CheckRecord(r Record) (uid string, err error) {
	if !r.Key.valid() {
		return "", fmt.Errorf("%w: invalid key", ErrMalformed)
	}
	obj, err := loadObject(r, nil)
	if err != nil {
		return "", err
	}
	return string(obj.Head.UID), nil
}

// Records yields the records of all objects in the state, in no particular order.
func (sn *Snapshot) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		sn.view.objects.Scan(func(_ string, obj *Object) bool {
			return yield(Record{Key: obj.Key, Revision: obj.Revision, Created: obj.Created, Data: obj.Data})
		})
	}
}
