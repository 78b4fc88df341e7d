package crd

import "errors"

var (
	// ErrNoVersion means that a definition does not have the requested version.
	ErrNoVersion = errors.New("version not defined")
	// ErrSchema means that a stored schema cannot be compiled. Validation keeps such schemas out of
	// the store.
	ErrSchema = errors.New("schema not usable")
)
