package workqueue

import "errors"

// ErrShutDown is the error of Get if the queue is shut down and empty.
var ErrShutDown = errors.New("work queue is shut down")
