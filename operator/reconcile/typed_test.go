package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
)

// The tests use PodDisruptionBudgets because their status has all common types of fields:
// conditions, observedGeneration, numbers.
type budget = policyv1.PodDisruptionBudget

var budgets = apitest.NewKind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")

type step func(context.Context, *budget) (reconcile.Result, error)

func (s step) Reconcile(ctx context.Context, b *budget) (reconcile.Result, error) { return s(ctx, b) }

type finalizing struct {
	step
	finalize step
}

func (f finalizing) Finalize(ctx context.Context, b *budget) (reconcile.Result, error) {
	return f.finalize(ctx, b)
}

type recorded []string

func (r *recorded) Event(_ runtime.Object, eventType, reason, message string) {
	*r = append(*r, eventType+" "+reason+" "+message)
}

type fixture struct {
	*apitest.Server
	client client.Client
	events recorded
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Server: apitest.New(budgets)}
	c, err := client.New(client.Config{REST: f.REST()})
	must(t, err)
	f.client = c
	must(t, c.Create(t.Context(), &budget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
	return f
}

var request = reconcile.Request{NamespacedName: client.Key{Namespace: "default", Name: "a"}}

func (f *fixture) run(t *testing.T, r reconcile.Typed[budget]) (reconcile.Result, error) {
	t.Helper()
	adapted, err := reconcile.For[budget](r, reconcile.TypedConfig{Client: f.client, Finalizer: "example.com/budget",
		Recorder: &f.events})
	must(t, err)
	return adapted.Reconcile(t.Context(), request)
}

func (f *fixture) budget(t *testing.T) *budget {
	t.Helper()
	b, err := client.Get[budget](t.Context(), f.client, request.NamespacedName)
	must(t, err)
	return b
}

// statusWrites returns the number of writes of the status.
func (f *fixture) statusWrites() int {
	n := 0
	for _, r := range f.Requests() {
		if strings.HasSuffix(r, "/status") {
			n++
		}
	}
	return n
}

// The status is written once, only if it changed, and also after an error. Other changes to the
// object are not written.
func TestStatusIsWrittenOnceWhenChanged(t *testing.T) {
	f := newFixture(t)
	do := step(func(_ context.Context, b *budget) (reconcile.Result, error) {
		b.Status.CurrentHealthy = 1
		b.Status.CurrentHealthy = 2
		b.Status.DisruptedPods = map[string]metav1.Time{"p": {Time: time.Unix(0, 0)}}
		b.Spec.MinAvailable = nil
		b.Labels = map[string]string{"not": "written"}
		return reconcile.Result{RequeueAfter: time.Minute}, nil
	})
	for range 3 {
		if result, err := f.run(t, do); err != nil || result.RequeueAfter != time.Minute {
			t.Fatalf("got %v, %v", result, err)
		}
	}
	b := f.budget(t)
	if n := f.statusWrites(); n != 1 || b.Status.CurrentHealthy != 2 || b.Status.ObservedGeneration != 1 ||
		b.Labels != nil {
		t.Errorf("%d writes, %+v", n, b)
	}
	_, err := f.run(t, step(func(_ context.Context, b *budget) (reconcile.Result, error) {
		b.Status.DisruptedPods = nil
		return reconcile.Result{}, errors.New("broken") // the status is written nevertheless
	}))
	if b := f.budget(t); err == nil || err.Error() != "broken" || b.Status.DisruptedPods != nil ||
		b.Status.CurrentHealthy != 2 {
		t.Errorf("%v, %+v", err, b.Status)
	}
}

// A status that the reconciler itself has written, for example by another subresource, is not
// written again.
func TestStatusThatTheReconcilerWrote(t *testing.T) {
	f := newFixture(t)
	var later int32
	do := step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
		b.Status.CurrentHealthy++
		b.Status.ObservedGeneration = b.Generation
		err := f.client.Subresource("status").Update(ctx, b, b)
		b.Status.DesiredHealthy = later
		return reconcile.Result{}, err
	})
	_, err := f.run(t, do)
	must(t, err)
	assert.Equalf(t, f.statusWrites(), 1, "writes of the status")
	later = 3
	_, err = f.run(t, do)
	must(t, err)
	assert.Equalf(t, f.statusWrites(), 3, "writes of the status")
	if b := f.budget(t); b.Status.CurrentHealthy != 2 || b.Status.DesiredHealthy != 3 {
		t.Errorf("the status is %+v", b.Status)
	}
}

// The reconciler yields its worker when only the write of the status remains, and does not yield
// without such a write.
func TestYieldsBeforeTheStatusIsWritten(t *testing.T) {
	f := newFixture(t)
	var steps []string
	do := step(func(_ context.Context, b *budget) (reconcile.Result, error) {
		steps = append(steps, "reconcile")
		b.Status.CurrentHealthy = 1
		return reconcile.Result{}, nil
	})
	undo := step(func(_ context.Context, b *budget) (reconcile.Result, error) {
		steps = append(steps, "finalize")
		b.Status.CurrentHealthy = 0
		return reconcile.Result{}, nil
	})
	r, err := reconcile.For[budget](finalizing{do, undo},
		reconcile.TypedConfig{Client: f.client, Finalizer: "example.com/budget"})
	must(t, err)
	run := func() {
		_, err := r.(reconcile.Yielding).ReconcileYielding(t.Context(), request, func() {
			steps = append(steps, fmt.Sprint("yield after ", f.statusWrites()))
		})
		must(t, err)
	}
	run()
	run()
	must(t, f.client.Delete(t.Context(), f.budget(t)))
	run()
	want := []string{"reconcile", "yield after 0", "reconcile", "finalize", "yield after 1"}
	if !slices.Equal(steps, want) || f.statusWrites() != 2 {
		t.Errorf("got %q and %d writes, want %q and 2", steps, f.statusWrites(), want)
	}
}

// The context has the object as it was read.
func TestObjectInContext(t *testing.T) {
	f := newFixture(t)
	_, err := f.run(t, step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
		b.Status.CurrentHealthy = 1
		if read := reconcile.Object(ctx).(*budget); read == b || read.UID != b.UID || read.Status.CurrentHealthy != 0 {
			t.Errorf("the context has %+v", read)
		}
		return reconcile.Result{}, nil
	}))
	must(t, err)
}

// An object that is gone, or is being deleted without the reconciler's finalizer, is not
// reconciled.
func TestNothingToReconcile(t *testing.T) {
	called := step(func(context.Context, *budget) (reconcile.Result, error) {
		t.Error("the reconciler was called")
		return reconcile.Result{}, nil
	})
	t.Run("gone", func(t *testing.T) {
		f := newFixture(t)
		must(t, f.client.Delete(t.Context(), f.budget(t)))
		_, err := f.run(t, called)
		must(t, err)
	})
	t.Run("being deleted", func(t *testing.T) {
		f := newFixture(t)
		b := f.budget(t)
		b.Finalizers = []string{"example.com/other"}
		must(t, f.client.Update(t.Context(), b))
		must(t, f.client.Delete(t.Context(), b))
		for _, r := range []reconcile.Typed[budget]{called, finalizing{called, called}} {
			_, err := f.run(t, r)
			must(t, err)
		}
	})
}

// An object that was deleted after it was read, before it gets the finalizer, is not an error.
func TestDeletedBeforeTheFinalizer(t *testing.T) {
	f := newFixture(t)
	f.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
		if verb == http.MethodPatch {
			return http.StatusNotFound, metav1.StatusReasonNotFound
		}
		return 0, ""
	}})
	none := step(func(context.Context, *budget) (reconcile.Result, error) {
		t.Error("the object was reconciled")
		return reconcile.Result{}, nil
	})
	deleted := 0
	r, err := reconcile.For[budget](finalizing{step: none, finalize: none}, reconcile.TypedConfig{
		Client: f.client, Finalizer: "example.com/budget", Deleted: func(context.Context, reconcile.Request) {
			deleted++
		},
	})
	must(t, err)
	if _, err := r.Reconcile(t.Context(), request); err != nil || deleted != 1 {
		t.Errorf("got %v; reported as deleted %d times", err, deleted)
	}
}

func TestFinalizer(t *testing.T) {
	f := newFixture(t)
	var steps []string
	answers := []struct {
		reconcile.Result
		error
	}{{error: errors.New("not yet")}, {Result: reconcile.Result{RequeueAfter: time.Second}},
		{Result: reconcile.Result{RequeueAfter: -time.Second}}, {}}
	r := finalizing{
		step: func(_ context.Context, b *budget) (reconcile.Result, error) {
			steps = append(steps, fmt.Sprint("reconcile ", b.Finalizers))
			b.Status.CurrentHealthy = 1
			return reconcile.Result{}, nil
		},
		finalize: func(_ context.Context, b *budget) (reconcile.Result, error) {
			steps = append(steps, "finalize")
			b.Status.CurrentHealthy++
			answer := answers[0]
			answers = answers[1:]
			return answer.Result, answer.error
		},
	}
	for range 2 {
		_, err := f.run(t, r)
		must(t, err)
	}
	must(t, f.client.Delete(t.Context(), f.budget(t)))
	if _, err := f.run(t, r); err == nil || err.Error() != "not yet" {
		t.Errorf("got %v", err)
	}
	if result, err := f.run(t, r); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("got %v, %v", result, err)
	}
	if result, err := f.run(t, r); err != nil || result.RequeueAfter != -time.Second {
		t.Errorf("got %v, %v", result, err)
	}
	assert.Equalf(t, f.budget(t).Status.CurrentHealthy, 4, "the status written while finalizing")
	_, err := f.run(t, r)
	must(t, err)
	if left := f.Objects(budgets.Plural); len(left) > 0 {
		t.Errorf("the object is still there: %v", left)
	}
	_, err = f.run(t, r)
	must(t, err)
	want := []string{"reconcile [example.com/budget]", "reconcile [example.com/budget]", "finalize", "finalize",
		"finalize", "finalize"}
	assert.Slice(t, steps, want)
}

// A reconciler with Finalize needs the name of its finalizer.
func TestFinalizerNeedsName(t *testing.T) {
	_, err := reconcile.For[budget](finalizing{}, reconcile.TypedConfig{})
	assert.ErrorContains(t, err, "needs the name of a finalizer")
}

// An invalid object gets one condition and one Event, and the next success resets the condition.
func TestInvalidIsCondition(t *testing.T) {
	f := newFixture(t)
	invalid := step(func(context.Context, *budget) (reconcile.Result, error) {
		return reconcile.Result{}, fmt.Errorf("check: %w",
			reconcile.Invalid("spec.minAvailable", errors.New("too many")))
	})
	for range 3 {
		if _, err := f.run(t, invalid); !reconcile.IsTerminal(err) {
			t.Fatalf("got %v, want a terminal error", err)
		}
	}
	c, _ := reconcile.GetCondition(f.budget(t), reconcile.ConditionAccepted)
	if c.Status != metav1.ConditionFalse || c.Reason != reconcile.ReasonInvalid ||
		c.Message != "spec.minAvailable: too many" {
		t.Errorf("the condition is %+v", c)
	}
	assert.Equalf(t, f.statusWrites(), 1, "writes")
	assert.Slicef(t, f.events, []string{"Warning Invalid spec.minAvailable: too many"}, "events")
	if reconcile.IsTrue(f.budget(t), reconcile.ConditionAccepted) {
		t.Error("the object is accepted")
	}
	_, err := f.run(t, step(func(context.Context, *budget) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}))
	must(t, err)
	if !reconcile.IsTrue(f.budget(t), reconcile.ConditionAccepted) {
		t.Error("the condition was not reset")
	}
}

// The condition of an invalid object must be written; if the write fails, the reconcile is retried.
func TestInvalidThatCannotBeWritten(t *testing.T) {
	f := newFixture(t)
	f.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
		if verb == http.MethodPatch {
			return http.StatusConflict, metav1.StatusReasonConflict
		}
		return 0, ""
	}})
	_, err := f.run(t, step(func(context.Context, *budget) (reconcile.Result, error) {
		return reconcile.Result{}, reconcile.Invalid("", errors.New("wrong"))
	}))
	if !apierrors.IsConflict(err) || reconcile.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
}

// A write of another client during the reconcile makes the status write a conflict, and the next
// reconcile succeeds.
func TestStatusConflicts(t *testing.T) {
	f := newFixture(t)
	do := step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
		other := f.budget(t)
		if other.Labels == nil { // another client writes meanwhile
			other.Labels = map[string]string{"a": "b"}
			must(t, f.client.Update(ctx, other))
		}
		b.Status.CurrentHealthy = 1
		return reconcile.Result{}, nil
	})
	if _, err := f.run(t, do); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	_, err := f.run(t, do)
	must(t, err)
	assert.Equalf(t, f.budget(t).Status.CurrentHealthy, 1, "the status")
}

type dynamic func(*unstructured.Unstructured)

func (d dynamic) Reconcile(_ context.Context, u *unstructured.Unstructured) (reconcile.Result, error) {
	d(u)
	return reconcile.Result{}, nil
}

// The status of an unstructured object is written once, if it changed.
func TestUnstructured(t *testing.T) {
	f := newFixture(t)
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"})
	r, err := reconcile.For[unstructured.Unstructured](dynamic(func(u *unstructured.Unstructured) {
		must(t, unstructured.SetNestedField(u.Object, int64(7), "status", "currentHealthy"))
	}), reconcile.TypedConfig{Client: f.client, Prototype: kind})
	must(t, err)
	for range 2 {
		_, err = r.Reconcile(t.Context(), request)
		must(t, err)
	}
	if n := f.budget(t).Status.CurrentHealthy; n != 7 || f.statusWrites() != 1 {
		t.Errorf("the status is %d after %d writes", n, f.statusWrites())
	}
}

// If the server has the object but no status subresource, the reconcile fails. It succeeds if the
// object was deleted in the meantime.
func TestKindWithoutStatusSubresource(t *testing.T) {
	f := newFixture(t)
	deleted := false
	f.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
		if strings.HasSuffix(path, "/status") || deleted && verb == http.MethodGet && strings.HasSuffix(path, "/a") {
			return http.StatusNotFound, metav1.StatusReasonNotFound
		}
		return 0, ""
	}})
	do := step(func(_ context.Context, b *budget) (reconcile.Result, error) {
		b.Status.CurrentHealthy = 1
		return reconcile.Result{}, nil
	})
	if _, err := f.run(t, do); err == nil || apierrors.IsNotFound(err) ||
		!strings.Contains(err.Error(), "no status subresource") {
		t.Errorf("got %v", err)
	}
	_, err := f.run(t, step(func(_ context.Context, b *budget) (reconcile.Result, error) {
		deleted = true
		b.Status.CurrentHealthy = 1
		return reconcile.Result{}, nil
	}))
	must(t, err)
}

type withoutStatus func(*corev1.ConfigMap)

func (w withoutStatus) Reconcile(_ context.Context, cm *corev1.ConfigMap) (reconcile.Result, error) {
	w(cm)
	return reconcile.Result{}, nil
}

// The reconcile of a kind without a status only reads the object.
func TestKindWithoutStatus(t *testing.T) {
	f := newFixture(t)
	must(t, f.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
		Name: "a"}}))
	r, err := reconcile.For[corev1.ConfigMap](withoutStatus(func(cm *corev1.ConfigMap) {
		cm.Data = map[string]string{"a": "b"}
	}),
		reconcile.TypedConfig{Client: f.client})
	must(t, err)
	_, err = r.Reconcile(t.Context(), request)
	must(t, err)
	if n := len(f.Requests()); n != 2 {
		t.Errorf("requests: %q", f.Requests())
	}
}

// RetryOnConflict retries conflicts, with growing delays and up to five attempts, and no other
// errors.
func TestRetryOnConflict(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "a", nil)
	tests := []struct {
		name string
		errs []error
		want error
		took time.Duration // at least
	}{
		{"first attempt", []error{nil}, nil, 0},
		{"third time", []error{conflict, conflict, nil}, nil, 30 * time.Millisecond},
		{"other error", []error{conflict, errors.ErrUnsupported}, errors.ErrUnsupported, 10 * time.Millisecond},
		{"conflicts until the end", []error{conflict, conflict, conflict, conflict, conflict}, conflict,
			150 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, n := time.Now(), 0
				err := reconcile.RetryOnConflict(t.Context(), func(context.Context) error {
					n++
					return tt.errs[n-1]
				})
				if err != tt.want || n != len(tt.errs) || time.Since(start) < tt.took {
					t.Errorf("got %v after %d calls and %v", err, n, time.Since(start))
				}
			})
		})
	}
}

var must = require.NoError
