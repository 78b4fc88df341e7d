package informer

import "errors"

var (
	// ErrNotRunning is wrapped by the errors of reads if Run was not called, or has returned.
	ErrNotRunning = errors.New("informers are not running")
	// ErrEnded is wrapped by errors about an informer that ended with its last handler;
	// Informers.For returns a new one.
	ErrEnded = errors.New("informer has ended")
	// ErrNotSynced is wrapped by the errors of waits for a first list; the error contains the
	// reason if it is known.
	ErrNotSynced = errors.New("informer is not synced")
)
