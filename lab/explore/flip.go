package explore

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// Flip changes an object, waits until the operator is quiet, changes it back, and waits again. If
// the objects that the run has changed then differ from those before, it raises an alarm (O8).
func Flip[T client.Object](obj T, change func(T)) Input {
	return flip(obj, func(ctx context.Context, c client.Client) error {
		current := obj.DeepCopyObject().(T)
		if err := c.Get(ctx, client.KeyOf(obj), current); err != nil {
			return err
		}
		change(current)
		return c.Update(ctx, current)
	})
}

// flipTo does the same as Flip, with the fields of a manifest.
func flipTo(manifest *unstructured.Unstructured) Input {
	return flip(manifest, func(ctx context.Context, c client.Client) error {
		return restore(ctx, c, manifest)
	})
}

func flip(obj client.Object, do func(context.Context, client.Client) error) Input {
	original := &unstructured.Unstructured{}
	return Input{name: "flip " + naming(obj), do: func(ctx context.Context, c client.Client) error {
		kind, err := client.KindOf(obj, c.Scheme())
		if err != nil {
			return err
		}
		if original, err = read(ctx, c, kind, client.KeyOf(obj)); err != nil {
			return err
		}
		return do(ctx, c)
	}, back: func(ctx context.Context, c client.Client) error { return restore(ctx, c, original) }}
}

func read(ctx context.Context, c client.Client, kind schema.GroupVersionKind,
	key client.Key) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	return obj, c.Get(ctx, key, obj)
}

// restore gives an object the fields, labels and annotations of an earlier version.
func restore(ctx context.Context, c client.Client, earlier *unstructured.Unstructured) error {
	current, err := read(ctx, c, earlier.GroupVersionKind(), client.KeyOf(earlier))
	if err != nil {
		return err
	}
	kept := []string{"apiVersion", "kind", "metadata", "status"}
	maps.DeleteFunc(current.Object, func(field string, _ any) bool { return !slices.Contains(kept, field) })
	for field, value := range runtime.DeepCopyJSON(earlier.Object) {
		if !slices.Contains(kept, field) {
			current.Object[field] = value
		}
	}
	current.SetLabels(earlier.GetLabels())
	current.SetAnnotations(earlier.GetAnnotations())
	return c.Update(ctx, current)
}

// flip makes both changes of Flip and compares the states.
func (u *users) flip(i Input) bool {
	before, complete := u.history.state(), !u.trial.gate.holds()
	if !u.do(i) || !u.trial.settle() {
		return false
	}
	u.result.log("input: " + i.name + " back")
	if !u.do(Input{name: i.name, do: i.back}) || !u.trial.settle() {
		return false
	}
	if !complete || u.trial.injector.occupied != nil {
		return true // a fault has delayed a write past the first change, or added an object
	}
	return u.trial.oracles.checkSame("O8", "a change and its reverse leave another state", before, "before")
}
