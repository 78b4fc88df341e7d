package operator

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/reconcile"
)

// Apply brings an object to what obj says, by server-side apply: fields that obj does not set are left to others. obj is filled with the
// result, and returned. In a reconcile, obj becomes owned by the object that is reconciled: its controller reference is set, unless it
// has one, and so is its namespace, if it is empty. The next read through c sees the result.
func Apply[P client.Object](ctx context.Context, c Client, obj P) (P, error) {
	if owner := reconcile.Object(ctx); owner != nil {
		if err := own(c, owner, obj); err != nil {
			return obj, err
		}
	}
	if err := c.Apply(ctx, obj); err != nil {
		return obj, fmt.Errorf("apply %s: %w", describe(c, obj), err)
	}
	return obj, nil
}

// own makes obj belong to owner.
func own(c Client, owner, obj Object) error {
	namespaced := func(o Object) (bool, error) {
		kind, err := client.KindOf(o, c.Scheme())
		if err != nil {
			return false, err
		}
		return controller.Namespaced(c.Mapper(), kind)
	}
	objNamespaced, err := namespaced(obj)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if objNamespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(owner.GetNamespace())
	}
	if metav1.GetControllerOfNoCopy(obj) != nil {
		return nil
	}
	// A reference has no namespace: what has one can own only what is there, too.
	if ns := owner.GetNamespace(); ns != "" && ns != obj.GetNamespace() {
		return fmt.Errorf("apply %s: it can't be owned by %s, which is in namespace %s: use Client.Apply for what is not to be owned",
			describe(c, obj), describe(c, owner), ns)
	}
	kind, err := client.KindOf(owner, c.Scheme())
	if err != nil {
		return fmt.Errorf("apply: %w", err)
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
