package operator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
	"kelson.dev/operator/workqueue"
)

// The trace has the queue at the start of a reconcile, its logs, and the backoff.
func TestQueueInTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := startRuns(t, controller.Config{Reconciler: reconcile.Func(func(ctx context.Context,
			req reconcile.Request) (reconcile.Result, error) {
			if req.Name == "later" {
				return reconcile.Result{}, nil
			}
			if n++; n < 3 {
				time.Sleep(time.Second)
				reconcile.Log(ctx).Info("trying", "n", n)
				return reconcile.Result{}, errors.New("broken")
			}
			return reconcile.Result{}, nil
		})})
		r.Queue().AddWith(named("later"), trace.Causes{}, workqueue.Options{Priority: -1})
		r.add("a")
		time.Sleep(time.Minute)
		r.stop(t)
		got := ""
		for _, rec := range r.records {
			d := rec.Details
			got += fmt.Sprintf("%s %+v %v", rec.Request.Name, *d.Queue, d.RetryAfter)
			for _, l := range d.Logs {
				got += fmt.Sprintf(" %v %s %s", l.At, l.Message, l.Attributes)
			}
			got += "\n"
		}
		want := `a {Waited:0s Priority:0 Retries:0 Ready:1 Delayed:0 Running:1} 5ms 1s trying n=1
later {Waited:1s Priority:-1 Retries:0 Ready:0 Delayed:1 Running:1} 0s
a {Waited:0s Priority:0 Retries:1 Ready:0 Delayed:0 Running:1} 10ms 1s trying n=2
a {Waited:0s Priority:0 Retries:2 Ready:0 Delayed:0 Running:1} 0s
`
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}
