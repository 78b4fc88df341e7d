package workqueue

import "errors"

// ErrShutDown is what Get returns when the queue is shut down and has nothing left to hand out.
var ErrShutDown = errors.New("work queue is shut down")
