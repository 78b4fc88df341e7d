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
		if err := own(ctx, c, owner, obj); err != nil {
			return obj, fmt.Errorf("apply %s: %w", describe(c, obj), err)
		}
	}
	if err := c.Apply(ctx, obj); err != nil {
		return obj, fmt.Errorf("apply %s: %w", describe(c, obj), err)
	}
	return obj, nil
}

// place puts obj into the namespace of owner, if it has a namespace and none is said.
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

// own makes obj belong to owner.
func own(ctx context.Context, c Client, owner, obj Object) error {
	if err := place(ctx, c, owner, obj); err != nil {
		return err
	}
	if metav1.GetControllerOfNoCopy(obj) != nil {
		return nil
	}
	// A reference has no namespace: what has one can own only what is there, too.
	if ns := owner.GetNamespace(); ns != "" && ns != obj.GetNamespace() {
		return fmt.Errorf("it can't be owned by %s, which is in namespace %s: use the methods of Client for what is not to be owned", describe(c, owner), ns)
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
