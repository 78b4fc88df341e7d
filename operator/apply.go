package operator

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
)

// Apply creates or updates an object by server-side apply. Fields that obj does not set belong to
// other managers and stay as they are. Apply fills obj with the server's answer and returns it. In
// a reconcile, Apply makes the reconciled object the controller of obj, unless obj has a controller
// or is the reconciled object itself, and sets an empty namespace to that of the reconciled object.
// The next read through c sees the result.
func Apply[P client.Object](ctx context.Context, c Client, obj P) (P, error) {
	if owner := reconcile.Object(ctx); owner != nil {
		if err := own(ctx, c, owner, obj); err != nil {
			return obj, fmt.Errorf("apply %s: %w", describe(c, obj), err)
		}
	}
	if err := c.Apply(ctx, obj); err != nil {
		return obj, fmt.Errorf("apply %s: %w", describe(c, obj), err)
	}
	return obj, nil
}

// place sets an empty namespace of a namespaced obj to the namespace of owner.
func place(ctx context.Context, c Client, owner, obj Object) error {
	if obj.GetNamespace() != "" {
		return nil
	}
	kind, err := client.KindOf(obj, c.Scheme())
	if err != nil {
		return err
	}
	mapper, err := client.MapperIn(ctx, c)
	if err != nil {
		return err
	}
	namespaced, err := controller.Namespaced(mapper, kind)
	if namespaced {
		obj.SetNamespace(owner.GetNamespace())
	}
	return err
}

// isSame reports whether two objects of any versions of a kind have the same name.
func isSame(c Client, a, b Object) bool {
	if client.KeyOf(a) != client.KeyOf(b) {
		return false
	}
	kindA, errA := client.KindOf(a, c.Scheme())
	kindB, errB := client.KindOf(b, c.Scheme())
	return errA == nil && errB == nil && kindA.GroupKind() == kindB.GroupKind()
}

// own sets the namespace of obj and adds a controller reference to owner.
func own(ctx context.Context, c Client, owner, obj Object) error {
	if req, ok := reconcile.RequestFrom(ctx); ok && req.Cluster != reconcile.Cluster(ctx) {
		// The garbage collector of the other cluster would delete the object, because it does not
		// find the owner.
		return fmt.Errorf("owner %s is in another cluster, and owner references cannot cross clusters: use the methods of Client for objects without an owner", describe(c, owner))
	}
	if err := place(ctx, c, owner, obj); err != nil {
		return err
	}
	if isSame(c, owner, obj) {
		return nil // a reference to itself would block its deletion
	}
	if metav1.GetControllerOfNoCopy(obj) != nil {
		return nil
	}
	// An owner reference has no namespace: a namespaced owner can own only objects in its
	// namespace.
	if ns := owner.GetNamespace(); ns != "" && ns != obj.GetNamespace() {
		return fmt.Errorf("owner %s is in namespace %s, and owner references cannot cross namespaces: use the methods of Client for objects without an owner", describe(c, owner), ns)
	}
	kind, err := client.KindOf(owner, c.Scheme())
	if err != nil {
		return err
	}
	obj.SetOwnerReferences(append(obj.GetOwnerReferences(), *metav1.NewControllerRef(owner, kind)))
	return nil
}

func describe(c Client, obj Object) string {
	kind := fmt.Sprintf("%T", obj)
	if k, err := client.KindOf(obj, c.Scheme()); err == nil {
		kind = k.Kind
	}
	return kind + " " + client.KeyOf(obj).String()
}
