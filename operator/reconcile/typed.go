package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// Typed reconciles objects of one Go type. obj is a private copy. After Reconcile returns, even
// with an error, the framework compares the status of obj and writes changes with one patch of the
// status subresource. It sets a field Status.ObservedGeneration to the reconciled generation. It
// does not write other changes to obj, and logs a warning about them. If Reconcile writes obj
// itself with the manager's client, the changes of the status stay in obj and are written at the
// end, as always. A controller with several workers starts another object while the status is being
// written (see Yielding).
//
// Objects that are being deleted are not reconciled; see Finalizer.
type Typed[T any] interface {
	Reconcile(ctx context.Context, obj *T) (Result, error)
}

// Finalizer is implemented by Typed reconcilers that must clean up before an object is deleted. The
// framework adds a finalizer before the first Reconcile of an object. After the object is deleted,
// it calls Finalize instead of Reconcile, until Finalize returns without an error and without a
// RequeueAfter. Then it removes the finalizer. It writes the status as for Reconcile.
type Finalizer[T any] interface {
	Finalize(ctx context.Context, obj *T) (Result, error)
}

// Recorder records events about objects. It must not block. If a Recorder has a method
// In(context.Context) Recorder, that method returns the recorder for the cluster of the reconcile.
type Recorder interface {
	Event(about runtime.Object, eventType, reason, message string)
}

// TypedConfig configures a typed reconciler.
type TypedConfig struct {
	// Client reads and writes the objects; required.
	Client client.Client
	// Finalizer is the name of the finalizer, such as "example.com/thing"; required if the
	// reconciler implements Finalizer.
	Finalizer string
	// Recorder, if not nil, records events about invalid objects.
	Recorder Recorder
	// Deleted, if not nil, is called for requests whose object does not exist.
	Deleted func(ctx context.Context, req Request)
	// Prototype has the kind, for Go types that don't determine it (*unstructured.Unstructured and
	// *metav1.PartialObjectMetadata); otherwise nil.
	Prototype client.Object
}

// For returns a Reconciler that calls a Typed reconciler.
func For[T any, P client.Pointer[T]](r Typed[T], cfg TypedConfig) (Reconciler, error) {
	t := &typed[T, P]{cfg: cfg, reconcile: r.Reconcile}
	if f, ok := r.(Finalizer[T]); ok {
		if t.finalize = f.Finalize; cfg.Finalizer == "" {
			return nil, fmt.Errorf("%T has a method Finalize, which needs the name of a finalizer: set TypedConfig.Finalizer", r)
		}
	}
	return t, nil
}

type step[T any] func(ctx context.Context, obj *T) (Result, error)

type typed[T any, P client.Pointer[T]] struct {
	cfg       TypedConfig
	reconcile step[T]
	finalize  step[T] // nil if the reconciler does not implement Finalizer
	checked   checkedShapes
	edits     editWarnings
}

func (t *typed[T, P]) Reconcile(ctx context.Context, req Request) (Result, error) {
	return t.ReconcileYielding(ctx, req, func() {})
}

// ReconcileYielding calls yield before it writes the status.
func (t *typed[T, P]) ReconcileYielding(ctx context.Context, req Request, yield func()) (Result, error) {
	obj := P(new(T))
	if t.cfg.Prototype != nil {
		obj.GetObjectKind().SetGroupVersionKind(t.cfg.Prototype.GetObjectKind().GroupVersionKind())
	}
	var before client.Object // the object that obj is a copy of, for the comparison
	err := t.cfg.Client.Get(ctx, req.NamespacedName, obj, client.GetOptions{Shared: &before})
	if apierrors.IsNotFound(err) && t.cfg.Deleted != nil {
		t.cfg.Deleted(ctx, req)
	}
	if err != nil {
		return Result{}, client.IgnoreNotFound(err)
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		return t.runFinalize(ctx, before, obj, yield)
	}
	if t.finalize != nil && !slices.Contains(obj.GetFinalizers(), t.cfg.Finalizer) {
		err := t.setFinalizers(ctx, obj, append(obj.GetFinalizers(), t.cfg.Finalizer))
		if apierrors.IsNotFound(err) { // deleted since it was read
			if t.cfg.Deleted != nil {
				t.cfg.Deleted(ctx, req)
			}
			return Result{}, nil
		}
		if err != nil {
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
	if err != nil || result.RequeueAfter != 0 {
		return result, err
	}
	rest := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == t.cfg.Finalizer })
	if err := client.IgnoreNotFound(t.setFinalizers(ctx, obj, rest)); err != nil {
		return Result{}, fmt.Errorf("remove finalizer: %w", err)
	}
	return Result{}, nil
}

// run is one call of the reconciler.
type run[T any, P client.Pointer[T]] struct {
	*typed[T, P]
	read    client.Object // the object as it was read
	before  client.Object // the last known state of the object on the server
	obj     P             // the reconciler's copy
	version string        // the resourceVersion that obj has unless the reconciler wrote it
}

// run calls the reconciler and writes the status. before is the object that obj is a copy of, or
// nil.
func (t *typed[T, P]) run(ctx context.Context, before client.Object, obj P, do step[T], yield func()) (Result, error) {
	if before == nil {
		before = obj.DeepCopyObject().(client.Object)
	}
	r := &run[T, P]{typed: t, read: before, before: before, obj: obj, version: obj.GetResourceVersion()}
	result, err := do(context.WithValue(ctx, objectKey{}, &current{before, r}), obj)
	r.warnUnwritten(ctx)
	var invalid *InvalidError
	switch {
	case errors.As(err, &invalid):
		t.reject(ctx, obj, invalid)
		observe(obj)
	case err == nil:
		accept(r.before, obj)
		observe(obj)
	}
	_, patchErr := r.writeStatus(ctx, yield)
	if patchErr = client.IgnoreNotFound(patchErr); patchErr != nil {
		patchErr = fmt.Errorf("write status: %w", patchErr)
		if invalid != nil {
			return Result{}, patchErr // the condition must be written: retry
		}
		if err == nil {
			return Result{}, patchErr
		}
		return Result{}, &unwrittenError{err, patchErr}
	}
	return result, err
}

// writeStatus writes the status of the object, if it differs from that of before. It calls yield
// before the request. The answer is nil if there was nothing to write; callers must not modify it.
func (r *run[T, P]) writeStatus(ctx context.Context, yield func()) (answer P, err error) {
	patch, fields, err := statusPatch(r.stored(ctx), r.obj)
	if err != nil || patch == nil {
		return nil, err
	}
	yield()
	// The response is decoded into a new object, so that caches may keep it.
	answer = P(new(T))
	answer.GetObjectKind().SetGroupVersionKind(r.obj.GetObjectKind().GroupVersionKind())
	answer.SetNamespace(r.obj.GetNamespace())
	answer.SetName(r.obj.GetName())
	answer.SetUID(r.obj.GetUID())
	answer.SetResourceVersion(r.obj.GetResourceVersion())
	opts := client.WriteOptions{Given: true}
	shape := shapeOf(fields)
	if r.checked.recently(shape) {
		opts.FieldValidation = metav1.FieldValidationIgnore
	}
	if err := r.cfg.Client.Subresource("status").Patch(ctx, answer, patch, opts); err != nil {
		if apierrors.IsNotFound(err) && r.exists(ctx) {
			err = fmt.Errorf("the kind has no status subresource (in Go types: +kubebuilder:subresource:status): %w",
				apierrors.NewMethodNotSupported(r.resource(), "patch status"))
		}
		return nil, err
	}
	r.checked.note(shape)
	r.version = answer.GetResourceVersion()
	r.obj.SetResourceVersion(r.version)
	return answer, nil
}

// stored returns the last known state of the object on the server. The reconciler may have written
// obj itself, for example the approval of a CertificateSigningRequest, which is in its status.
func (r *run[T, P]) stored(ctx context.Context) client.Object {
	if r.obj.GetResourceVersion() == r.version {
		return r.before
	}
	now := P(new(T))
	now.GetObjectKind().SetGroupVersionKind(r.obj.GetObjectKind().GroupVersionKind())
	err := r.cfg.Client.Get(ctx, client.KeyOf(r.obj), now)
	if err != nil || now.GetUID() != r.obj.GetUID() || now.GetResourceVersion() != r.obj.GetResourceVersion() {
		return r.before
	}
	return now
}

// exists reports whether the server has the object.
func (r *run[T, P]) exists(ctx context.Context) bool {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(r.obj.GetObjectKind().GroupVersionKind())
	return r.cfg.Client.Get(ctx, client.KeyOf(r.obj), now, client.Live) == nil && now.GetUID() == r.obj.GetUID()
}

// resource names the kind in errors.
func (r *run[T, P]) resource() schema.GroupResource {
	kind := r.obj.GetObjectKind().GroupVersionKind()
	return schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}
}

// reject sets the condition and records an event for an invalid object.
func (t *typed[T, P]) reject(ctx context.Context, obj P, invalid *InvalidError) {
	changed := true
	if takesConditions(obj) {
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

// accept resets a condition set by reject in an earlier reconcile.
func accept(before, obj client.Object) {
	was, _ := GetCondition(before, ConditionAccepted)
	if c, ok := GetCondition(obj, ConditionAccepted); ok && c == was && c.Reason == ReasonInvalid {
		SetCondition(obj, metav1.Condition{Type: ConditionAccepted, Status: metav1.ConditionTrue,
			Reason: ReasonAccepted})
	}
}

// setFinalizers replaces the finalizers, or returns a conflict if the object has changed since it
// was read.
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
