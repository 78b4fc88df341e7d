package operator

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// Outcome reports what CreateOrUpdate did.
type Outcome string

// The outcomes of CreateOrUpdate.
const (
	Unchanged Outcome = "unchanged"
	Created   Outcome = "created"
	Updated   Outcome = "updated"
)

// CreateOrUpdate creates or updates an object. It reads the object with the name of obj into obj,
// if there is one, and calls set, which changes obj. Then it creates the object, or updates it if
// set changed anything. In a reconcile, the reconciled object becomes the controller of obj as with
// Apply; another object with another controller is an error.
//
// Prefer Apply for most objects: it leaves fields of other managers alone, and removes fields that
// the operator no longer sets. Use CreateOrUpdate if the desired state depends on the existing
// object. If the object changed in the meantime, the update returns a conflict, which the
// controller retries.
func CreateOrUpdate[P client.Object](ctx context.Context, c Client, obj P, set func() error) (Outcome, error) {
	outcome, err := createOrUpdate(ctx, c, obj, set)
	if err != nil {
		return Unchanged, fmt.Errorf("create or update %s: %w", describe(c, obj), err)
	}
	return outcome, nil
}

func createOrUpdate(ctx context.Context, c Client, obj Object, set func() error) (Outcome, error) {
	owner := reconcile.Object(ctx)
	if owner != nil {
		if err := place(ctx, c, owner, obj); err != nil {
			return Unchanged, err
		}
	}
	key := client.KeyOf(obj)
	if key.Name == "" {
		return Unchanged, errors.New("it has no name: set metadata.name")
	}
	var before client.Object
	err := c.Get(ctx, key, obj, client.GetOptions{Shared: &before})
	exists := err == nil
	if err = client.IgnoreNotFound(err); err != nil {
		return Unchanged, err
	}
	if exists && before == nil {
		before = obj.DeepCopyObject().(client.Object)
	}
	if err := set(); err != nil {
		return Unchanged, err
	}
	if client.KeyOf(obj) != key {
		return Unchanged, fmt.Errorf("set must not change its name: it is now %s", client.KeyOf(obj))
	}
	if owner != nil {
		if other := metav1.GetControllerOfNoCopy(obj); other != nil && other.UID != owner.GetUID() &&
			!isSame(c, owner, obj) {
			return Unchanged, fmt.Errorf("it is already controlled by %s %s", other.Kind, other.Name)
		}
		if err := own(ctx, c, owner, obj); err != nil {
			return Unchanged, err
		}
	}
	switch {
	case !exists:
		return Created, c.Create(ctx, obj)
	case equality.Semantic.DeepEqual(before, obj):
		return Unchanged, nil
	}
	return Updated, c.Update(ctx, obj)
}
