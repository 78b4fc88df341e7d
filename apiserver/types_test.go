package apiserver_test

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kelson.dev/apiserver"
)

const group = "restaurant.example.com"

// pizza is the hub: version v1beta1.
type pizza struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              pizzaSpec   `json:"spec"`
	Status            pizzaStatus `json:"status,omitzero"`
}

type pizzaSpec struct {
	Toppings []pizzaTopping `json:"toppings,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	Size     string         `json:"size,omitempty"`
}

type pizzaTopping struct {
	Name     string `json:"name"`
	Quantity int64  `json:"quantity,omitempty"`
}

type pizzaStatus struct {
	Cost int64 `json:"cost,omitempty"`
}

func (p *pizza) DeepCopyObject() runtime.Object {
	out := *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Toppings = slices.Clone(p.Spec.Toppings)
	return &out
}

// Default sets the defaults of v1beta1.
func (p *pizza) Default() {
	p.Spec.Size = cmp.Or(p.Spec.Size, "medium")
	for i := range p.Spec.Toppings {
		p.Spec.Toppings[i].Quantity = cmp.Or(p.Spec.Toppings[i].Quantity, 1)
	}
}

// oldPizza is version v1alpha1.
type oldPizza struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              oldPizzaSpec `json:"spec"`
	Status            pizzaStatus  `json:"status,omitzero"`
}

type oldPizzaSpec struct {
	Toppings []string `json:"toppings,omitempty"`
	Size     string   `json:"size,omitempty"`
}

func (p *oldPizza) DeepCopyObject() runtime.Object {
	out := *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Toppings = slices.Clone(p.Spec.Toppings)
	return &out
}

func (p *oldPizza) ConvertTo(hub *pizza) error {
	hub.ObjectMeta, hub.Status, hub.Spec.Size = p.ObjectMeta, p.Status, p.Spec.Size
	at := map[string]int{}
	for _, name := range p.Spec.Toppings {
		if i, ok := at[name]; ok {
			hub.Spec.Toppings[i].Quantity++
			continue
		}
		at[name] = len(hub.Spec.Toppings)
		hub.Spec.Toppings = append(hub.Spec.Toppings, pizzaTopping{Name: name, Quantity: 1})
	}
	return nil
}

func (p *oldPizza) ConvertFrom(hub *pizza) error {
	p.ObjectMeta, p.Status, p.Spec.Size = hub.ObjectMeta, hub.Status, hub.Spec.Size
	for _, topping := range hub.Spec.Toppings {
		for range topping.Quantity {
			p.Spec.Toppings = append(p.Spec.Toppings, topping.Name)
		}
	}
	return nil
}

// topping is cluster-scoped.
type topping struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              toppingSpec `json:"spec"`
}

type toppingSpec struct {
	Cost int64 `json:"cost,omitempty"`
}

func (t *topping) DeepCopyObject() runtime.Object {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// pizzaRules has a method for every rule.
type pizzaRules struct{}

func (pizzaRules) Validate(_ context.Context, p *pizza) (errs field.ErrorList) {
	for i, t := range p.Spec.Toppings {
		if t.Quantity < 1 || t.Quantity > 10 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "toppings").Index(i).Child("quantity"), t.Quantity,
				"must be between 1 and 10"))
		}
	}
	return errs
}

func (pizzaRules) ValidateUpdate(_ context.Context, p, old *pizza) (errs field.ErrorList) {
	if p.Spec.Size != old.Spec.Size {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "size"), "is immutable"))
	}
	return errs
}

func (pizzaRules) ValidateStatusUpdate(_ context.Context, p, _ *pizza) (errs field.ErrorList) {
	if p.Status.Cost < 0 {
		errs = append(errs, field.Invalid(field.NewPath("status", "cost"), p.Status.Cost, "must not be negative"))
	}
	return errs
}

func (pizzaRules) PrepareForCreate(_ context.Context, p *pizza) {
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, "prepared", "yes")
}

func (pizzaRules) Warnings(_ context.Context, p, _ *pizza) []string {
	if len(p.Spec.Toppings) == 0 {
		return []string{"a pizza without toppings"}
	}
	return nil
}

func (pizzaRules) Canonicalize(p *pizza) {
	slices.SortFunc(p.Spec.Toppings, func(a, b pizzaTopping) int { return cmp.Compare(a.Name, b.Name) })
}

func (pizzaRules) Columns() []apiserver.Column[*pizza] {
	return []apiserver.Column[*pizza]{{Name: "Size", Value: func(p *pizza) any { return p.Spec.Size }}}
}

func (pizzaRules) Fields(p *pizza) fields.Set { return fields.Set{"spec.size": p.Spec.Size} }

func (pizzaRules) GracePeriodSeconds(_ context.Context, p *pizza, requested *int64) int64 {
	if requested != nil {
		return *requested
	}
	if p.Labels["oven"] == "yes" {
		return 30
	}
	return 0
}

func toppingsExist(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*pizza]) error {
	for _, t := range w.Object.Spec.Toppings {
		if _, err := apiserver.Get[*topping](tx, "", t.Name); err != nil {
			return err
		}
	}
	return nil
}

func kinds(parts ...any) apiserver.Part {
	return apiserver.Group(group,
		apiserver.Kind(&pizza{TypeMeta: typeMeta("v1beta1", "Pizza")}, append([]any{
			apiserver.Version(&oldPizza{TypeMeta: typeMeta("v1alpha1", "Pizza")}), pizzaRules{},
			apiserver.Names("", "pz"),
		}, parts...)...),
		apiserver.Kind(&topping{TypeMeta: typeMeta("v1alpha1", "Topping")}, apiserver.ClusterScoped()),
	)
}

func typeMeta(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: group + "/" + version, Kind: kind}
}
