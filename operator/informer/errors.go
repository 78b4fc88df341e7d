package informer

import "errors"

var (
	// ErrNotRunning is wrapped by reads when Run was not called, or has ended.
	ErrNotRunning = errors.New("informers are not running")
	// ErrEnded is wrapped when an informer is used that ended with its last handler; Informers.For gives a new one.
	ErrEnded = errors.New("informer has ended")
	// ErrNotSynced is wrapped by waits for a first list that did not come; the error says why, as far as it is known.
	ErrNotSynced = errors.New("informer is not synced")
)
