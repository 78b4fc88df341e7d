package crd

import "errors"

var (
	// ErrNoVersion says that a definition does not have the version asked for.
	ErrNoVersion = errors.New("version not defined")
	// ErrSchema says that a stored schema cannot be compiled; validation keeps such schemas out of the store.
	ErrSchema = errors.New("schema not usable")
)
