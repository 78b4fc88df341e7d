package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/client"
)

// Typed reconciles objects of one Go type. The object is the reconciler's own copy. What Reconcile does to its status is written
// once, after the return, by a patch of the status subresource, if it changed anything; that is so when Reconcile returns an error,
// too. A field Status.ObservedGeneration is kept at the generation that was reconciled. Other changes of the copy are not written.
// A controller with several workers has another object reconciled while the status is written (see Yielding).
//
// Objects that are being deleted are not reconciled; see Finalizer.
type Typed[T any] interface {
	Reconcile(ctx context.Context, obj *T) (Result, error)
}

// Finalizer is implemented by a Typed reconciler that has something to undo before an object of its kind is gone. The object then
// gets a finalizer before its first Reconcile. When it is deleted, Finalize is called in place of Reconcile, until it returns no error
// and asks for no RequeueAfter; then the finalizer is removed. The status is written as for Reconcile.
type Finalizer[T any] interface {
	Finalize(ctx context.Context, obj *T) (Result, error)
}

// Recorder records events about objects. It must not block. One with a method In(context.Context) Recorder is asked for that of the
// reconcile's cluster.
type Recorder interface {
	Event(about runtime.Object, eventType, reason, message string)
}

// TypedConfig is what a typed reconciler is run with.
type TypedConfig struct {
	// Client reads and writes the objects; required.
	Client client.Client
	// Finalizer is the name of the finalizer, as "example.com/thing"; required if the reconciler implements Finalizer.
	Finalizer string
	// Recorder, if any, records that an object is invalid.
	Recorder Recorder
	// Prototype has the kind, for types that do not tell it (*unstructured.Unstructured); else nil.
	Prototype client.Object
}

// For makes a Reconciler of a Typed one.
func For[T any, P client.Pointer[T]](r Typed[T], cfg TypedConfig) (Reconciler, error) {
	t := &typed[T, P]{cfg: cfg, reconcile: r.Reconcile}
	if f, ok := r.(Finalizer[T]); ok {
		if t.finalize = f.Finalize; cfg.Finalizer == "" {
			return nil, fmt.Errorf("%T has a method Finalize: its finalizer needs a name", r)
		}
	}
	return t, nil
}

type step[T any] func(ctx context.Context, obj *T) (Result, error)

type typed[T any, P client.Pointer[T]] struct {
	cfg       TypedConfig
	reconcile step[T]
	finalize  step[T] // nil if there is nothing to undo
	checked   checkedShapes
}

func (t *typed[T, P]) Reconcile(ctx context.Context, req Request) (Result, error) {
	return t.ReconcileYielding(ctx, req, func() {})
}

// ReconcileYielding yields before it writes the status.
func (t *typed[T, P]) ReconcileYielding(ctx context.Context, req Request, yield func()) (Result, error) {
	obj := P(new(T))
	if t.cfg.Prototype != nil {
		obj.GetObjectKind().SetGroupVersionKind(t.cfg.Prototype.GetObjectKind().GroupVersionKind())
	}
	var before client.Object // what obj is a copy of, to compare it with
	if err := t.cfg.Client.Get(ctx, req.NamespacedName, obj, client.GetOptions{Shared: &before}); err != nil {
		return Result{}, client.IgnoreNotFound(err)
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		return t.runFinalize(ctx, before, obj, yield)
	}
	if t.finalize != nil && !slices.Contains(obj.GetFinalizers(), t.cfg.Finalizer) {
		if err := t.setFinalizers(ctx, obj, append(obj.GetFinalizers(), t.cfg.Finalizer)); err != nil {
			return Result{}, fmt.Errorf("add finalizer: %w", err)
		}
		before = nil
	}
	return t.run(ctx, before, obj, t.reconcile, yield)
}

func (t *typed[T, P]) runFinalize(ctx context.Context, before client.Object, obj P, yield func()) (Result, error) {
	if t.finalize == nil || !slices.Contains(obj.GetFinalizers(), t.cfg.Finalizer) {
		return Result{}, nil
	}
	result, err := t.run(ctx, before, obj, t.finalize, yield)
	if err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	rest := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == t.cfg.Finalizer })
	if err := client.IgnoreNotFound(t.setFinalizers(ctx, obj, rest)); err != nil {
		return Result{}, fmt.Errorf("remove finalizer: %w", err)
	}
	return Result{}, nil
}

// run calls the reconciler and writes the status. before is what obj is a copy of, if there is such.
func (t *typed[T, P]) run(ctx context.Context, before client.Object, obj P, do step[T], yield func()) (Result, error) {
	if before == nil {
		before = obj.DeepCopyObject().(client.Object)
	}
	result, err := do(WithObject(ctx, before), obj)
	var invalid *InvalidError
	switch {
	case errors.As(err, &invalid):
		t.reject(ctx, obj, invalid)
		observe(obj)
	case err == nil:
		accept(before, obj)
		observe(obj)
	}
	patchErr := t.writeStatus(ctx, before, obj, yield)
	if patchErr = client.IgnoreNotFound(patchErr); patchErr != nil {
		patchErr = fmt.Errorf("write status: %w", patchErr)
		if invalid != nil {
			return Result{}, patchErr // the condition must get there: this is to be tried again
		}
		if err == nil {
			return Result{}, patchErr
		}
		return Result{}, &unwrittenError{err, patchErr}
	}
	return result, err
}

// writeStatus makes the status of the object what it is in obj, if it is another in before.
func (t *typed[T, P]) writeStatus(ctx context.Context, before client.Object, obj P, yield func()) error {
	patch, fields, err := statusPatch(before, obj)
	if err != nil || patch == nil {
		return err
	}
	yield()
	// The answer goes into an object that nobody else has.
	answer := P(new(T))
	answer.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	answer.SetNamespace(obj.GetNamespace())
	answer.SetName(obj.GetName())
	answer.SetUID(obj.GetUID())
	answer.SetResourceVersion(obj.GetResourceVersion())
	opts := client.WriteOptions{Given: true}
	shape := shapeOf(fields)
	if t.checked.recently(shape) {
		opts.FieldValidation = metav1.FieldValidationIgnore
	}
	if err := t.cfg.Client.Subresource("status").Patch(ctx, answer, patch, opts); err != nil {
		return err
	}
	t.checked.note(shape)
	obj.SetResourceVersion(answer.GetResourceVersion())
	return nil
}

// reject tells whoever looks at the object that it is invalid.
func (t *typed[T, P]) reject(ctx context.Context, obj P, invalid *InvalidError) {
	changed := true
	if Conditions(obj) != nil {
		changed = SetCondition(obj, metav1.Condition{
			Type: ConditionAccepted, Status: metav1.ConditionFalse, Reason: ReasonInvalid, Message: invalid.Error(),
		})
	}
	if changed && t.cfg.Recorder != nil {
		recorder := t.cfg.Recorder
		if r, ok := recorder.(interface {
			In(context.Context) Recorder
		}); ok {
			recorder = r.In(ctx)
		}
		recorder.Event(obj, corev1.EventTypeWarning, ReasonInvalid, invalid.Error())
	}
}

// accept takes back what reject said in an earlier reconcile.
func accept(before, obj client.Object) {
	was, _ := GetCondition(before, ConditionAccepted)
	if c, ok := GetCondition(obj, ConditionAccepted); ok && c == was && c.Reason == ReasonInvalid {
		SetCondition(obj, metav1.Condition{Type: ConditionAccepted, Status: metav1.ConditionTrue, Reason: ReasonAccepted})
	}
}

// setFinalizers replaces the finalizers of the object as it was read, or conflicts.
func (t *typed[T, P]) setFinalizers(ctx context.Context, obj P, finalizers []string) error {
	patch, err := newMergePatch(map[string]any{"metadata": map[string]any{
		"resourceVersion": obj.GetResourceVersion(),
		"finalizers":      finalizers,
	}})
	if err != nil {
		return err
	}
	return t.cfg.Client.Patch(ctx, obj, patch)
}
