package store

// Backend makes batches of writes durable. Its methods are called by one goroutine at a time.
type Backend interface {
	// Load calls each once for every stored record, in any order, with Data that is the store's to keep, and returns the newest revision ever
	// appended (which may be that of a deletion). It is called once, before any Append.
	Load(each func(Record) error) (revision uint64, err error)
	// Append makes the records durable as one unit and returns only when they are (after the sync). Records are in revision
	// order. Their Data must be neither kept nor changed. An error means that the outcome is unknown: the caller makes no further call but Close.
	Append(records []Record) error
	// Close releases files and locks.
	Close() error
}

// Record is one write as a Backend keeps it.
type Record struct {
	Key      Key
	Revision uint64
	Created  uint64
	// Data is the object with its resourceVersion; nil for a deletion.
	Data []byte
}
