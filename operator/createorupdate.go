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

// Outcome is what CreateOrUpdate did.
type Outcome string

// What CreateOrUpdate can do.
const (
	Unchanged Outcome = "unchanged"
	Created   Outcome = "created"
	Updated   Outcome = "updated"
)

// CreateOrUpdate brings an object to what set makes of it. obj has a name; it is filled with what there is under that name, if anything, set
// changes it, and it is created, or updated if that changed anything. In a reconcile, obj becomes owned as by Apply; to have
// another owner already is an error.
//
// Apply is the better choice for most objects: it leaves to others what it does not set, and takes back what it no longer sets. This is for
// what has to be computed from what is there. An update that comes too late is a conflict, which reconciles try again.
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
		return Unchanged, errors.New("it has no name")
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
		return Unchanged, fmt.Errorf("it was renamed to %s", client.KeyOf(obj))
	}
	if owner != nil {
		if other := metav1.GetControllerOfNoCopy(obj); other != nil && other.UID != owner.GetUID() {
			return Unchanged, fmt.Errorf("it is controlled by %s %s", other.Kind, other.Name)
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
