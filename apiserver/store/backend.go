package store

import (
	"context"
	"fmt"
	"iter"
)

// Backend makes batches of writes durable. Its methods are called by one goroutine at a time.
type Backend interface {
	// Load calls each once for every stored record, in any order, with Data that is the store's to keep, and returns the newest revision ever
	// appended (which may be that of a deletion). It is called once, before any Append.
	Load(each func(Record) error) (revision uint64, err error)
	// Append makes the records durable as one unit and returns only when they are (after the sync). Records are in revision
	// order. Their Data must be neither kept nor changed. An error that unwraps to ErrNotWritten means that nothing of the records is kept,
	// whatever happens, and the next call begins after the same revision. After every other error the outcome is unknown: the caller makes no
	// further call but Close.
	Append(records []Record) error
	// Checkpoint is called after every Append that succeeded. Most often it returns nil. When the backend wants to forget the writes that
	// led to the present state, it returns a function that makes that state durable as a whole; it is called once, in a goroutine of
	// its own, with the state's records, while Append goes on, and has returned before Close is called. It stops early when its
	// context ends. Its error loses nothing: what was appended is still there.
	Checkpoint() func(context.Context, iter.Seq[Record]) error
	// Close releases files and locks.
	Close() error
}

// Recoverer is a Backend that can say whether there is room again after an Append that failed with ErrFull. It is called where Append would be.
type Recoverer interface {
	Recover() error
}

// Record is one write as a Backend keeps it.
type Record struct {
	Key      Key
	Revision uint64
	Created  uint64
	// Data is the object with its resourceVersion; nil for a deletion.
	Data []byte
}

// CheckRecord says whether a store can load a record: whether it is one object, under a proper key; and returns its uid, if it has one.
func CheckRecord(r Record) (uid string, err error) {
	if !r.Key.valid() {
		return "", fmt.Errorf("%w: not a key", ErrMalformed)
	}
	obj, err := loadObject(r)
	if err != nil {
		return "", err
	}
	return string(obj.Head.UID), nil
}

// Records yields what the state consists of, in no particular order.
func (sn *Snapshot) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		sn.view.objects.Scan(func(_ string, obj *Object) bool {
			return yield(Record{Key: obj.Key, Revision: obj.Revision, Created: obj.Created, Data: obj.Data})
		})
	}
}
