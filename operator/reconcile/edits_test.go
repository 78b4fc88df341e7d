package reconcile_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// Changes that the library does not write are reported once; those that the reconciler writes are
// not.
func TestWarningAboutUnwrittenEdits(t *testing.T) {
	one := intstr.FromInt32(1)
	for name, tt := range map[string]struct {
		do   step
		want string // in the log; empty: nothing is logged
	}{
		"status": {func(_ context.Context, b *budget) (reconcile.Result, error) {
			b.Status.CurrentHealthy++
			return reconcile.Result{}, nil
		}, ""},
		"empty instead of nil": {func(_ context.Context, b *budget) (reconcile.Result, error) {
			b.Labels = map[string]string{}
			return reconcile.Result{}, nil
		}, ""},
		"spec": {func(_ context.Context, b *budget) (reconcile.Result, error) {
			b.Spec.MinAvailable = &one
			return reconcile.Result{}, nil
		}, "fields=spec"},
		"metadata and spec, with a checkpoint": {func(ctx context.Context, b *budget) (reconcile.Result, error) {
			b.Spec.MinAvailable, b.Annotations = &one, map[string]string{"a": "b"}
			b.Status.CurrentHealthy++
			must(t, reconcile.SaveStatus(ctx, b))
			return reconcile.Result{}, nil
		}, `fields="metadata.annotations, spec"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var log bytes.Buffer
			adapted, err := reconcile.For[budget](tt.do, reconcile.TypedConfig{Client: f.client})
			must(t, err)
			ctx := reconcile.WithLog(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
			for range 100 {
				_, err = adapted.Reconcile(ctx, request)
				must(t, err)
			}
			if got := strings.Count(log.String(), "fields that the library does not write"); got > 1 ||
				(got == 1) != (tt.want != "") || !strings.Contains(log.String(), tt.want) {
				t.Errorf("got %s", log.String())
			}
		})
	}
	t.Run("written", func(t *testing.T) {
		f := newFixture(t)
		var log bytes.Buffer
		adapted, err := reconcile.For[budget](step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
			b.Spec.MinAvailable = &one
			return reconcile.Result{}, f.client.Update(ctx, b)
		}), reconcile.TypedConfig{Client: f.client})
		must(t, err)
		_, err = adapted.Reconcile(reconcile.WithLog(t.Context(), slog.New(slog.NewTextHandler(&log, nil))), request)
		must(t, err)
		if log.Len() > 0 {
			t.Errorf("got %s", log.String())
		}
	})
	t.Run("unstructured", func(t *testing.T) {
		f := newFixture(t)
		var log bytes.Buffer
		kind := &unstructured.Unstructured{}
		kind.SetAPIVersion("policy/v1")
		kind.SetKind("PodDisruptionBudget")
		adapted, err := reconcile.For[unstructured.Unstructured](
			untyped(func(_ context.Context, u *unstructured.Unstructured) (reconcile.Result, error) {
				return reconcile.Result{}, unstructured.SetNestedField(u.Object, int64(1), "spec", "minAvailable")
			}), reconcile.TypedConfig{Client: f.client, Prototype: kind})
		must(t, err)
		_, err = adapted.Reconcile(reconcile.WithLog(t.Context(), slog.New(slog.NewTextHandler(&log, nil))), request)
		must(t, err)
		assert.Contains(t, log.String(), "fields=spec")
	})
}

type untyped func(context.Context, *unstructured.Unstructured) (reconcile.Result, error)

func (f untyped) Reconcile(ctx context.Context, u *unstructured.Unstructured) (reconcile.Result, error) {
	return f(ctx, u)
}

// Deleted is called for objects that do not exist.
func TestDeleted(t *testing.T) {
	f := newFixture(t)
	var deleted []reconcile.Request
	adapted, err := reconcile.For[budget](step(func(context.Context, *budget) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}),
		reconcile.TypedConfig{Client: f.client, Deleted: func(_ context.Context, req reconcile.Request) {
			deleted = append(deleted, req)
		}})
	must(t, err)
	_, err = adapted.Reconcile(t.Context(), request)
	must(t, err)
	if len(deleted) > 0 {
		t.Errorf("deleted: %v", deleted)
	}
	must(t, f.client.Delete(t.Context(), &budget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
	_, err = adapted.Reconcile(t.Context(), request)
	must(t, err)
	if len(deleted) != 1 || deleted[0] != (reconcile.Request{NamespacedName: client.Key{Namespace: "default",
		Name: "a"}}) {
		t.Errorf("deleted: %v", deleted)
	}
}
