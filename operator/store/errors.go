package store

import "errors"

var (
	// ErrNoIndex is wrapped by errors about an index that does not exist.
	ErrNoIndex = errors.New("no such index")
	// ErrIndexExists is wrapped by errors about an index that is added twice.
	ErrIndexExists = errors.New("index exists")
)
