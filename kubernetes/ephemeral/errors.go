package ephemeral

import "errors"

var (
	// ErrInvalid says that a request asks for what there cannot be.
	ErrInvalid = errors.New("invalid request")
	// ErrNotFound says that there is no control plane, or no base, of that name.
	ErrNotFound = errors.New("not found")
	// ErrTooMany says that Config.Max is reached.
	ErrTooMany = errors.New("too many")
	// ErrClosed says that the server is shutting down.
	ErrClosed = errors.New("the server is shutting down")
)
