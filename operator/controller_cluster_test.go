package operator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
)

// engagement is a controller.Clusters with one cluster, east, that can be disengaged.
type engagement struct {
	ctx    context.Context
	end    context.CancelCauseFunc
	mu     sync.Mutex
	inside int
}

var errGone = errors.New("gone")

func engage() *engagement {
	e := &engagement{}
	e.ctx, e.end = context.WithCancelCause(context.Background())
	return e
}

func (e *engagement) Enter(ctx context.Context, cluster string) (controller.Visit, bool) {
	if cluster != "east" || e.ctx.Err() != nil {
		return controller.Visit{}, false
	}
	add := func(n int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.inside += n
	}
	add(1)
	return controller.Visit{Context: ctx, Engaged: e.ctx, Leave: func() { add(-1) }}, true
}

// disengage disengages the cluster as a manager does.
func (e *engagement) disengage(r *runs) {
	e.end(errGone)
	r.Disengage("east")
}

func inEast(name string) reconcile.Request {
	req := named(name)
	req.Cluster = "east"
	return req
}

// closedGate admits only the open requests.
type closedGate struct {
	mu     sync.Mutex
	open   bool
	gained func()
}

func (g *closedGate) Enter(reconcile.Request) (leave func(), ours bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return func() {}, g.open
}

func (g *closedGate) Gained(f func()) (stop func()) {
	g.gained = f
	return func() {}
}

func (g *closedGate) letIn() {
	g.mu.Lock()
	g.open = true
	g.mu.Unlock()
	g.gained()
}

// disengager is a reconciler that implements Disengage.
type disengager struct {
	reconcile.Func
	disengaged []string
}

func (t *disengager) Disengage(cluster string) { t.disengaged = append(t.disengaged, cluster) }

// Parked requests are dropped with their cluster.
func TestDisengageParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters, gate := engage(), &closedGate{}
		var mu sync.Mutex
		var seen []string
		reconciler := &disengager{Func: func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, req.String())
			return reconcile.Result{}, nil
		}}
		r := startRuns(t, controller.Config{Clusters: clusters, Gate: gate, Reconciler: reconciler})
		r.Queue().Add(inEast("a"), controller.Why("test"))
		r.add("b")
		time.Sleep(time.Second)
		clusters.disengage(r)
		gate.letIn()
		time.Sleep(time.Second)
		r.stop(t)
		if !slices.Equal(seen, []string{"default/b"}) || !slices.Equal(reconciler.disengaged, []string{"east"}) {
			t.Errorf("got %q, and Disengage was called for %q", seen, reconciler.disengaged)
		}
	})
}

// The result of a reconcile that ends after its cluster was disengaged is ignored.
func TestDisengageWhileReconciling(t *testing.T) {
	for name, result := range map[string]struct {
		outcome, logged string
		do              func(ctx context.Context) (reconcile.Result, error)
	}{
		"success": {"success", "", func(context.Context) (reconcile.Result, error) { return reconcile.Result{}, nil }},
		"later": {"success", "", func(context.Context) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}},
		"error": {"disengaged", "", func(context.Context) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("reconcile failed")
		}},
		"panic": {"error", "reconcile failed", func(context.Context) (reconcile.Result, error) {
			panic("reconcile failed")
		}},
		"stuck": {"disengaged", "", func(ctx context.Context) (reconcile.Result, error) {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), errGone) {
				panic(context.Cause(ctx))
			}
			return reconcile.Result{}, ctx.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clusters := engage()
				measured := &outcomes{}
				r := startRuns(t, controller.Config{Clusters: clusters, GracePeriod: time.Minute, Metrics: measured,
					Reconciler: reconcile.Func(
						func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
							time.Sleep(time.Second)
							return result.do(ctx)
						})})
				r.Queue().Add(inEast("a"), controller.Why("test"))
				synctest.Wait()
				r.Queue().AddAfter(inEast("a"), controller.Why("again, while it runs"), time.Minute)
				r.Queue().AddRateLimited(inEast("b"), controller.Why("test"))
				clusters.disengage(r)
				time.Sleep(2 * time.Minute)
				if s := r.Queue().Stats(); s.Ready+s.Waiting+s.Running != 0 ||
					r.Queue().NumRequeues(inEast("a"))+r.Queue().NumRequeues(inEast("b")) != 0 {
					t.Errorf("%+v is in the queue", s)
				}
				r.stop(t)
				if !slices.Equal(measured.all, []string{result.outcome}) {
					t.Errorf("the outcomes are %q, want %q", measured.all, result.outcome)
				}
				if logged := r.logged.String(); (logged != "") != (result.logged != "") ||
					!strings.Contains(logged, result.logged) {
					t.Errorf("it was logged: %s", logged)
				}
				assert.Equalf(t, clusters.inside, 0, "are still in the cluster")
			})
		})
	}
}

// outcomes is a controller.Metrics.
type outcomes struct {
	mu  sync.Mutex
	all []string
}

func (*outcomes) Started()            {}
func (*outcomes) Freed()              {}
func (*outcomes) PersistentConflict() {}
func (*outcomes) Panicked()           {}
func (*outcomes) TimedOut()           {}
func (o *outcomes) Ended(outcome string, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, outcome)
}

// ofCluster is a source that is never synced.
type ofCluster struct {
	controller.SourceFunc
	name string
}

func (o ofCluster) OfCluster() string { return o.name }

// All sources of a cluster end with it, including custom ones, and Disengage does not wait for
// them.
func TestDisengageSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		source := func(cluster string) controller.Source {
			return ofCluster{func(ctx context.Context, _ controller.Queue) (<-chan struct{}, error) {
				context.AfterFunc(ctx, func() { ended = append(ended, cluster) })
				synced := make(chan struct{})
				if cluster == "" {
					close(synced)
				}
				return synced, nil
			}, cluster}
		}
		worked := make(chan struct{}, 1)
		r := startRuns(t, controller.Config{Sources: []controller.Source{source(""), source("east")}, Clusters: engage(),
			Reconciler: reconcile.Func(
				func(context.Context, reconcile.Request) (reconcile.Result, error) {
					worked <- struct{}{}
					return reconcile.Result{}, nil
				})})
		stop, err := r.Watch(source("west"))
		must(t, err)
		r.add("a")
		<-worked
		r.Disengage("east")
		synctest.Wait()
		assert.Slicef(t, ended, []string{"east"}, "have ended")
		r.Disengage("east")
		r.Disengage("") // the manager's own cluster remains
		stop()
		stop()
		synctest.Wait()
		assert.Slicef(t, ended, []string{"east", "west"}, "have ended")
		r.stop(t)
	})
}
