package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/internal/tree"
	"kelson.dev/operator/client"
)

// SaveStatus writes the status of obj, the object that a Typed reconciler was called with, in the
// middle of a reconcile. When it returns nil, the server has stored the status, and each later
// reconcile reads it, even after a crash. Use it for values that must not be lost, such as the id
// of a resource that was created outside of the cluster.
//
// In contrast to the write after Reconcile, SaveStatus survives concurrent changes of the object
// and failed requests: it reads the object from the server, repeats its changes of the status
// there, and tries again, for up to ten seconds. Changes of the status by others are then in obj,
// too; where both changed a field, the value in obj wins. The rest of obj stays as the reconcile
// read it.
//
// SaveStatus sends no request if the status has not changed. After an error, the server may not
// have the status. The error is a NotFound status (see apierrors) if the object was deleted, or
// replaced by a new one with the same name; Reconcile must then undo what it created.
func SaveStatus(ctx context.Context, obj client.Object) error {
	saver := currentIn(ctx).status
	if saver == nil {
		return fmt.Errorf("save status of %T: the context is not that of a typed reconciler", obj)
	}
	if err := saver.saveStatus(ctx, obj); err != nil {
		return fmt.Errorf("save status of %T %s: %w", obj, client.KeyOf(obj), err)
	}
	return nil
}

// KeepStatus is for clients that decode the response to a write into obj. It is called before the
// write, and the returned function after its success.
//
// If obj is the object of a typed reconcile, and the reconciler has changed its status, obj keeps
// these changes: the response to a write of the object itself has the stored status, which would
// replace them before they are written.
func KeepStatus(ctx context.Context, obj client.Object) (restore func() error) {
	if saver := currentIn(ctx).status; saver != nil {
		return saver.keepStatus(obj)
	}
	return func() error { return nil }
}

type statusSaver interface {
	saveStatus(ctx context.Context, obj client.Object) error
	keepStatus(obj client.Object) (restore func() error)
}

func (r *run[T, P]) keepStatus(obj client.Object) (restore func() error) {
	if obj != client.Object(r.obj) || !hasStatus(obj) || sameStatus(r.before, obj) {
		return func() error { return nil }
	}
	changed := obj.DeepCopyObject().(client.Object)
	return func() error { return mergeStatus(obj, obj, r.before, changed) }
}

const (
	savePatience = 10 * time.Second
	savePause    = 20 * time.Millisecond
	maxSavePause = 2 * time.Second
)

func (r *run[T, P]) saveStatus(ctx context.Context, obj client.Object) error {
	if obj != client.Object(r.obj) {
		return errors.New("it is not the object that Reconcile was called with")
	}
	answer, err := r.writeStatus(ctx, func() {})
	pause, start := savePause, time.Now()
	for tries := 1; isTransient(err) && ctx.Err() == nil && time.Since(start) < savePatience; tries++ {
		if !apierrors.IsConflict(err) || tries > conflictTries { // a read solves most conflicts
			select {
			case <-time.After(pause + rand.N(pause/2)):
			case <-ctx.Done():
				return err
			}
			pause = min(2*pause, maxSavePause)
		}
		if err = r.rebase(ctx); err == nil {
			answer, err = r.writeStatus(ctx, func() {})
		}
	}
	if err == nil && answer != nil {
		r.before = r.obj.DeepCopyObject().(client.Object)
		r.before.SetManagedFields(answer.GetManagedFields())
	}
	return err
}

// isTransient reports whether a write that failed with err can succeed if it is repeated. The
// server may already have executed the write.
func isTransient(err error) bool {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return false
	case !errors.As(err, &status):
		return true // no response
	}
	return apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		status.Status().Code >= 500
}

// rebase reads the object from the server and repeats the changes of the status there.
func (r *run[T, P]) rebase(ctx context.Context) error {
	now := P(new(T))
	now.GetObjectKind().SetGroupVersionKind(r.obj.GetObjectKind().GroupVersionKind())
	if err := r.cfg.Client.Get(ctx, client.KeyOf(r.obj), now, client.Live); err != nil {
		return err
	}
	if now.GetUID() != r.obj.GetUID() {
		return apierrors.NewNotFound(r.resource(), fmt.Sprintf("%s with uid %s", r.obj.GetName(), r.obj.GetUID()))
	}
	if err := mergeStatus(r.obj, now, r.before, r.obj); err != nil {
		return err
	}
	r.before = now
	r.obj.SetResourceVersion(now.GetResourceVersion())
	r.version = now.GetResourceVersion()
	return nil
}

// mergeStatus sets the status of an object to that of now, with the changes from before to after.
func mergeStatus(obj, now, before, after client.Object) error {
	var trees [3]any
	for i, from := range []client.Object{now, before, after} {
		data, err := encodeStatus(from)
		if err != nil {
			return err
		}
		fields, err := fieldsOf(data)
		if err != nil {
			return err
		}
		if fields != nil {
			trees[i] = fields
		}
	}
	return setStatus(obj, tree.ThreeWay(trees[0], trees[1], trees[2]))
}

// setStatus replaces the status of an object by a tree.
func setStatus(obj client.Object, status any) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if u.Object["status"] = status; status == nil {
			delete(u.Object, "status")
		}
		return nil
	}
	field := reflect.ValueOf(obj).Elem().FieldByName("Status")
	data, err := json.Marshal(status)
	if err == nil {
		into := reflect.New(field.Type())
		if err = json.Unmarshal(data, into.Interface()); err == nil {
			field.Set(into.Elem())
		}
	}
	if err != nil {
		return fmt.Errorf("merge status: %w", err)
	}
	return nil
}
