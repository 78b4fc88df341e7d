package ephemeral

import "errors"

var (
	// ErrInvalid means that a request is invalid.
	ErrInvalid = errors.New("invalid request")
	// ErrNotFound means that there is no such control plane or base.
	ErrNotFound = errors.New("not found")
	// ErrTooMany means that Config.Max is reached.
	ErrTooMany = errors.New("too many")
	// ErrClosed means that the server is shutting down.
	ErrClosed = errors.New("the server is shutting down")
)
