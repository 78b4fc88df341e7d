package reconcile

import "time"

type Request struct{ Namespace, Name string }

type Result struct {
	Requeue      bool
	Requeue      bool
	RequeueAfter time.Duration
	Priority     *int
}
