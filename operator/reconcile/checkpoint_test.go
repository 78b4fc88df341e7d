package reconcile_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
)

// change makes a change by another writer.
func (f *fixture) change(t *testing.T, set func(*budget)) {
	t.Helper()
	b := f.budget(t)
	set(b)
	must(t, f.client.Update(t.Context(), b))
	set(b)
	must(t, f.client.Subresource("status").Update(t.Context(), b, nil))
}

// A checkpoint is on the server when SaveStatus returns, and the status after the reconcile builds
// on it.
func TestSaveStatus(t *testing.T) {
	f := newFixture(t)
	_, err := f.run(t, step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
		b.Status.DesiredHealthy = 7
		must(t, reconcile.SaveStatus(ctx, b))
		assert.Equalf(t, f.budget(t).Status.DesiredHealthy, 7, "after SaveStatus, the server")
		must(t, reconcile.SaveStatus(ctx, b)) // nothing to write
		b.Status.CurrentHealthy = 3
		return reconcile.Result{}, nil
	}))
	must(t, err)
	if b := f.budget(t); b.Status.DesiredHealthy != 7 || b.Status.CurrentHealthy != 3 ||
		b.Status.ObservedGeneration != 1 {
		t.Errorf("got %+v", b.Status)
	}
	if got := f.writes(); got != 2 {
		t.Errorf("%d status writes, want 2: %v", got, f.Requests())
	}
}

func (f *fixture) writes() (n int) {
	for _, r := range f.Requests() {
		if strings.HasSuffix(r, "/status") {
			n++
		}
	}
	return n
}

// A checkpoint survives changes by other writers, and keeps theirs.
func TestSaveStatusSurvivesConflicts(t *testing.T) {
	f := newFixture(t)
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "R"}
	_, err := f.run(t, step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
		f.change(t, func(b *budget) {
			b.Labels = map[string]string{"by": "another"}
			b.Status.ExpectedPods = 5
			b.Status.DesiredHealthy = 1 // the reconciler changes this, too
			b.Status.Conditions = []metav1.Condition{{Type: "Theirs", Status: metav1.ConditionTrue, Reason: "T",
				LastTransitionTime: metav1.Now()}}
		})
		b.Status.DesiredHealthy = 7
		reconcile.SetCondition(b, ready)
		must(t, reconcile.SaveStatus(ctx, b))
		if b.Labels != nil || b.Status.ExpectedPods != 5 {
			t.Errorf("the reconciler's object is %v, %+v", b.Labels, b.Status)
		}
		return reconcile.Result{}, nil
	}))
	must(t, err)
	b := f.budget(t)
	_, theirs := reconcile.GetCondition(b, "Theirs")
	if b.Labels["by"] != "another" || b.Status.DesiredHealthy != 7 || b.Status.ExpectedPods != 5 || !theirs ||
		!reconcile.IsTrue(b, "Ready") {
		t.Errorf("got %v, %+v", b.Labels, b.Status)
	}
}

// A checkpoint survives failed requests, including those that the server has executed.
func TestSaveStatusSurvivesFailures(t *testing.T) {
	for name, executed := range map[string]bool{"the write fails": false, "the response is lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				faults := 0
				_, err := f.run(t, step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
					f.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
						if faults == 3 || verb == http.MethodGet && faults != 2 {
							return 0, ""
						}
						if faults++; faults == 1 && executed {
							f.SetFaults(apitest.Faults{})
							faults = 3
							f.change(t, func(b *budget) { b.Status.DesiredHealthy = 7 })
						}
						return http.StatusInternalServerError, metav1.StatusReasonInternalError
					}})
					b.Status.DesiredHealthy = 7
					return reconcile.Result{}, reconcile.SaveStatus(ctx, b)
				}))
				must(t, err)
				if got := f.budget(t).Status.DesiredHealthy; got != 7 || faults != 3 {
					t.Errorf("the server has %d after %d faults", got, faults)
				}
			})
		})
	}
}

// Without a server, SaveStatus ends with an error in time.
func TestSaveStatusGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		start := time.Now()
		_, err := f.run(t, step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
			f.SetFaults(apitest.Faults{Fail: func(string, string) (int, metav1.StatusReason) {
				return http.StatusInternalServerError, metav1.StatusReasonInternalError
			}})
			b.Status.DesiredHealthy = 7
			return reconcile.Result{}, reconcile.SaveStatus(ctx, b)
		}))
		if took := time.Since(start); err == nil || took < 5*time.Second || took > 30*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// SaveStatus returns an error for an object that was deleted or replaced.
func TestSaveStatusOfADeletedObject(t *testing.T) {
	for name, replaced := range map[string]bool{"deleted": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var saved error
			_, _ = f.run(t, step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
				must(t, f.client.Delete(t.Context(), f.budget(t)))
				if replaced {
					must(t, f.client.Create(t.Context(),
						&budget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
				}
				b.Status.DesiredHealthy = 7
				saved = reconcile.SaveStatus(ctx, b)
				return reconcile.Result{}, saved
			}))
			if !apierrors.IsNotFound(saved) {
				t.Errorf("got %v", saved)
			}
			if replaced && f.budget(t).Status.DesiredHealthy != 0 {
				t.Error("the status of the former object is in the new one")
			}
		})
	}
}

// SaveStatus outside of a reconcile, or of a copy of the object, is an error.
func TestSaveStatusOfOtherObjects(t *testing.T) {
	f := newFixture(t)
	if err := reconcile.SaveStatus(t.Context(), &budget{}); err == nil ||
		!strings.Contains(err.Error(), "typed reconciler") {
		t.Errorf("outside of a reconcile: %v", err)
	}
	_, err := f.run(t, step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
		assert.ErrorContainsf(t, reconcile.SaveStatus(ctx, b.DeepCopy()), "not the object", "a copy")
		return reconcile.Result{}, nil
	}))
	must(t, err)
}

// The reconcile after a crash sees the checkpoint.
func TestSaveStatusSurvivesACrash(t *testing.T) {
	f := newFixture(t)
	created := 0
	create := step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
		if b.Status.DesiredHealthy == 0 {
			created++ // a resource outside of the cluster, with an id
			b.Status.DesiredHealthy = int32(100 + created)
			must(t, reconcile.SaveStatus(ctx, b))
			panic("crash")
		}
		b.Status.CurrentHealthy = b.Status.DesiredHealthy
		return reconcile.Result{}, nil
	})
	func() {
		defer func() { _ = recover() }()
		_, _ = f.run(t, create)
		t.Error("no crash")
	}()
	_, err := f.run(t, create) // with a new reconciler
	must(t, err)
	if b := f.budget(t); created != 1 || b.Status.CurrentHealthy != 101 {
		t.Errorf("created %d, %+v", created, b.Status)
	}
}

var _ client.Object = (*budget)(nil)
