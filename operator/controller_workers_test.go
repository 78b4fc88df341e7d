package operator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
)

type counts struct{ reconciling, writes, done int }

// writing reconciles for one second and then writes for ten seconds, and counts. Objects named
// "nothing" need no write.
type writing struct {
	t *testing.T

	mu   sync.Mutex
	busy map[string]bool
	counts
	most     counts
	broken   bool // writes fail, every other one by a panic
	failures int
}

func (w *writing) Reconcile(context.Context, reconcile.Request) (reconcile.Result, error) {
	w.t.Error("a reconciler that yields was called as one that does not")
	return reconcile.Result{}, nil
}

func (w *writing) ReconcileYielding(_ context.Context, req reconcile.Request, yield func()) (reconcile.Result, error) {
	w.change(func() {
		if w.busy[req.Name] {
			w.t.Errorf("%s is reconciled twice at the same time", req.Name)
		}
		w.busy[req.Name] = true
		w.reconciling++
		w.most.reconciling = max(w.most.reconciling, w.reconciling)
	})
	time.Sleep(time.Second)
	w.change(func() {
		w.reconciling--
		w.writes++
		w.most.writes = max(w.most.writes, w.writes)
	})
	defer w.change(func() {
		w.writes--
		w.done++
		delete(w.busy, req.Name)
	})
	if req.Name == "nothing" {
		return reconcile.Result{}, nil
	}
	yield()
	time.Sleep(10 * time.Second)
	return reconcile.Result{}, w.outcome()
}

func (w *writing) outcome() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.broken {
		return nil
	}
	if w.failures++; w.failures%2 == 0 {
		panic("test panic")
	}
	return errors.New("broken")
}

func (w *writing) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *writing) now() counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

func newWriting(t *testing.T) *writing { return &writing{t: t, busy: map[string]bool{}} }

// workers is a controller.Metrics that counts busy workers.
type workers struct {
	outcomes
	active, most int
}

func (w *workers) Started()            { w.add(1) }
func (w *workers) Freed()              { w.add(-1) }
func (w *workers) PersistentConflict() {}

func (w *workers) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active += n
	w.most = max(w.most, w.active)
}

// While the last write of a reconcile is in progress, its worker continues with another object. As
// many objects as workers are reconciled, and up to twice as many wait for their writes.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, measured := newWriting(t), &workers{}
		r := startRuns(t, controller.Config{Concurrency: 2, Reconciler: w, Metrics: measured})
		for n := range 12 {
			r.add(fmt.Sprint("object-", n))
		}
		// With 2 workers and 4 spare ones, six reconciles wait for their writes after three
		// seconds, and the last two of them occupy their workers.
		time.Sleep(10 * time.Second)
		if now := w.now(); now.reconciling != 0 || now.writes != 6 {
			t.Errorf("%d are reconciled and %d written, want 0 and 6", now.reconciling, now.writes)
		}
		r.add("object-0") // while it is written
		time.Sleep(time.Minute)
		r.stop(t)
		if w.done != 13 || len(measured.all) != 13 || w.most.reconciling != 2 || w.most.writes != 6 {
			t.Errorf("%d were done, %d at most reconciled and %d written at a time", w.done, w.most.reconciling,
				w.most.writes)
		}
		if measured.active != 0 || measured.most != 2 {
			t.Errorf("%d workers reconcile at the end, %d did at most", measured.active, measured.most)
		}
		s := r.Queue().Stats()
		assert.Equalf(t, s.Ready+s.Waiting+s.Running, 0, "%+v is in the queue", s)
	})
}

// A single worker finishes one object before it starts the next, so that each reconcile sees the
// statuses of the previous ones.
func TestOneWorkerDoesNotYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, begin := newWriting(t), time.Now()
		r := startRuns(t, controller.Config{Reconciler: w})
		for n := range 3 {
			r.add(fmt.Sprint("object-", n))
		}
		for now := w.now(); now.done < 3; now = w.now() {
			if now.reconciling+now.writes > 1 {
				t.Errorf("%d are reconciled while %d are written", now.reconciling, now.writes)
			}
			time.Sleep(time.Second / 2)
		}
		r.stop(t)
		if took := time.Since(begin); took < 33*time.Second {
			t.Errorf("three took %v", took)
		}
	})
}

// The controller continues with the same number of workers, regardless of the result of the last
// write.
func TestYieldAndFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t)
		w.broken = true
		r := startRuns(t, controller.Config{Concurrency: 3, Reconciler: w})
		for n := range 10 {
			r.add(fmt.Sprint("object-", n))
		}
		time.Sleep(10 * time.Minute)
		w.change(func() { w.broken = false })
		time.Sleep(2 * time.Hour) // more than any backoff
		before := w.now().done
		for n := range 9 {
			r.add(fmt.Sprint("object-", n))
		}
		time.Sleep(3*time.Second + time.Second/2) // three at a time
		assert.Equalf(t, w.now().writes, 9, "are written")
		time.Sleep(time.Minute)
		r.stop(t)
		if w.failures < 20 || w.done != before+9 {
			t.Errorf("%d failed, %d were done afterwards, want 9", w.failures, w.done-before)
		}
	})
}

// A controller ends when the last writes have.
func TestStopWhileYielded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriting(t)
		r := startRuns(t, controller.Config{Concurrency: 2, GracePeriod: time.Minute, Reconciler: w})
		for n := range 3 {
			r.add(fmt.Sprint("object-", n))
		}
		r.add("nothing")
		time.Sleep(2*time.Second + time.Second/2)
		begin := time.Now()
		r.stop(t)
		if took := time.Since(begin); took != 9*time.Second+time.Second/2 || w.done != 4 ||
			w.writes+w.reconciling != 0 {
			t.Errorf("it took %v, %d are done, %d still written", took, w.done, w.writes)
		}
	})
}
