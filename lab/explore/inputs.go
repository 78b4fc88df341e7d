package explore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/operator/client"
)

// ApplySubresource applies the part of an object that belongs to a subresource, such as status, as
// another controller does. It takes over fields of others.
func ApplySubresource(subresource string, obj client.Object) Input {
	return Input{name: "apply " + subresource + " of " + naming(obj), on: obj,
		do: func(ctx context.Context, c client.Client) error {
			return c.Subresource(subresource).Apply(ctx, obj.DeepCopyObject().(client.Object), client.ForceOwnership)
		}}
}

// CreateSubresource sends an object to a subresource of the object with the same name, such as an
// Eviction to the subresource eviction of a Pod. The kind of the other object is of.
func CreateSubresource(subresource string, of, obj client.Object) Input {
	return Input{name: "create " + subresource + " of " + naming(of),
		do: func(ctx context.Context, c client.Client) error {
			return c.Subresource(subresource).Create(ctx, of.DeepCopyObject().(client.Object), obj.DeepCopyObject())
		}}
}

// As returns an input that another user makes, such as the ServiceAccount of another controller. It
// has all rights. The last part of the name is the field manager of its writes.
func (i Input) As(user string) Input {
	i.as = user
	return i
}

// Fields changes each field of an object to other values, one after the other, and back: unset ones
// are set, optional ones removed, and numbers, strings and lists get values at the limits of the
// schema of the definition. Many of these values are invalid, and the server refuses them. After
// each change, the explorer waits until the operator is quiet.
//
// This takes long, because each plan repeats it. The actions of an exploration change one field in
// each plan.
func Fields(obj client.Object) Input {
	return Input{name: "change the fields of " + naming(obj), fields: obj}
}

// applyAgain makes the inputs of other controllers to an object again, which a user has created
// again: those up to the n-th input.
func (u *users) applyAgain(n int, obj *unstructured.Unstructured) bool {
	for _, i := range u.setup.scenario.Inputs[:n] {
		if i.on == nil || client.KeyOf(i.on) != client.KeyOf(obj) || u.setup.kindOf(i.on) != obj.GetKind() {
			continue
		}
		if !u.trial.settle() || !u.do(i) {
			return false
		}
	}
	return true
}

// maxFieldChanges bounds the changes of Fields.
const maxFieldChanges = 200

// changeFields makes the input of Fields.
func (u *users) changeFields(i Input) bool {
	kind, err := client.KindOf(i.fields, u.setup.env.Client().Scheme())
	if err != nil {
		u.result.failed = err
		return false
	}
	var obj *unstructured.Unstructured
	if !u.do(Input{name: i.name, as: i.as, do: func(ctx context.Context, c client.Client) (err error) {
		obj, err = read(ctx, c, kind, client.KeyOf(i.fields))
		return err
	}}) {
		return false
	}
	definition, ok := u.schemaOf(obj)
	if !ok {
		u.result.failed = fmt.Errorf("input %q: %s has no schema in a CustomResourceDefinition", i.name, kind.Kind)
		return false
	}
	all := variations(definition, obj.Object)
	before, complete := u.history.state(), !u.trial.gate.holds()
	for _, v := range all[:min(len(all), maxFieldChanges)] {
		f := Fault{Field: v.field, Value: v.value}
		u.result.log("input: set " + v.field + "=" + v.value)
		refusals := u.refusals
		if !u.try(func(ctx context.Context, c client.Client) error { return set(ctx, c, obj, f) }) {
			return false
		}
		if u.refusals > refusals {
			continue
		}
		u.trial.oracles.unusual = true // an operator may return an error for the value
		ok := u.trial.settle()
		u.trial.oracles.unusual = false
		if !ok || !u.try(func(ctx context.Context, c client.Client) error {
			return restore(ctx, c, obj)
		}) || !u.trial.settle() {
			return false
		}
		what := "a change of " + v.field + " to " + v.value + " and its reverse leave another state"
		if complete && u.trial.injector.occupied == nil && u.setup.scenario.Reversible &&
			!u.trial.oracles.checkSame("O8", what, before, "before") {
			return true
		}
	}
	return true
}

// onSubresource returns the input of an entry of ConfigFile that names a subresource.
func (c configInput) onSubresource(obj *unstructured.Unstructured) (Input, error) {
	apiVersion, kind, ok := strings.Cut(c.Of, " ")
	switch {
	case !c.Apply.empty() && c.Of == "":
		return ApplySubresource(c.Subresource, obj), nil
	case !c.Create.empty() && ok:
		of := &unstructured.Unstructured{}
		of.SetAPIVersion(apiVersion)
		of.SetKind(kind)
		of.SetNamespace(obj.GetNamespace())
		of.SetName(obj.GetName())
		return CreateSubresource(c.Subresource, of, obj), nil
	}
	return Input{}, errors.New("subresource needs apply, or create and of, such as \"v1 Pod\"")
}
