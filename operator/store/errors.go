package store

import "errors"

var (
	// ErrNoIndex is wrapped when an index is asked that was never added.
	ErrNoIndex = errors.New("no such index")
	// ErrIndexExists is wrapped when an index is added twice under one name.
	ErrIndexExists = errors.New("index exists")
)
