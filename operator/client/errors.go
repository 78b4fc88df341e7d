package client

import "errors"

var (
	// ErrNoKind is wrapped by errors about objects whose kind cannot be told: a Go type the scheme does not know, or a
	// dynamic object without apiVersion and kind.
	ErrNoKind = errors.New("unknown kind")
	// ErrNoNamespace is wrapped by errors about an object that lives in a namespace and names none.
	ErrNoNamespace = errors.New("namespace is missing")
	// ErrNoName is wrapped by errors about a call that needs the name of an object.
	ErrNoName = errors.New("name is missing")
)
