package operator_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/require"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
)

// conflictCounter counts persistent conflicts.
type conflictCounter struct{ outcomes, persistent atomic.Int64 }

func (c *conflictCounter) Started()                    {}
func (c *conflictCounter) Freed()                      {}
func (c *conflictCounter) Ended(string, time.Duration) { c.outcomes.Add(1) }
func (c *conflictCounter) Panicked()                   {}
func (c *conflictCounter) TimedOut()                   {}
func (c *conflictCounter) PersistentConflict()         { c.persistent.Add(1) }

// A few conflicts are normal; ten in a row are reported.
func TestPersistentConflicts(t *testing.T) {
	for conflicts, want := range map[int64]struct{ warnings, counted int64 }{9: {0, 0}, 10: {1, 1}, 25: {2, 16}} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			var metrics conflictCounter
			var runs atomic.Int64
			source := make(chan reconcile.Request)
			c, err := controller.New(controller.Config{
				Name: "c", Sources: []controller.Source{controller.Channel(source)}, Metrics: &metrics,
				Log: slog.New(slog.NewTextHandler(&log, nil)),
				Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					if got, ok := reconcile.RequestFrom(ctx); !ok || got != req {
						t.Errorf("the request in the context is %v", got)
					}
					if n := runs.Add(1); n%(conflicts+1) != 0 {
						return reconcile.Result{},
							apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", nil)
					}
					return reconcile.Result{}, nil // a success resets the count
				}),
			})
			must(t, err)
			stop := require.Running(t, c.Run)
			source <- reconcile.Request{}
			time.Sleep(48 * time.Hour)
			if runs.Load() != conflicts+1 || metrics.persistent.Load() != want.counted {
				t.Errorf("%d conflicts: %d runs, %d counted", conflicts, runs.Load(), metrics.persistent.Load())
			}
			if n := strings.Count(log.String(), "keeps hitting conflicts"); int64(n) != want.warnings {
				t.Errorf("%d conflicts: %d warnings: %s", conflicts, n, log.String())
			}
			source <- reconcile.Request{} // as many conflicts again
			time.Sleep(48 * time.Hour)
			if metrics.persistent.Load() != 2*want.counted {
				t.Errorf("%d conflicts again: %d counted", conflicts, metrics.persistent.Load())
			}
			stop()
		})
	}
}
