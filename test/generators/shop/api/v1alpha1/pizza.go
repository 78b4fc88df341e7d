package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/test/generators/shop/api/shared"
)

// Size is how large a pizza is.
type Size string

// Topping is something on the pizza.
type Topping struct {
	// name of it.
	Name string `json:"name"`
	// grams of it.
	Grams int32 `json:"grams,omitempty"`
	// notes to know.
	Notes map[string]string `json:"notes,omitempty"`
}

// Baking is how it is baked.
type Baking struct {
	// degrees of the oven.
	Degrees *int32 `json:"degrees,omitempty"`
	// duration in the oven.
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// PizzaSpec is an order.
type PizzaSpec struct {
	Baking `json:",inline"`

	// size of the pizza.
	Size Size `json:"size,omitempty"`
	// extras are the toppings, which are called so since v1.
	Extras []Topping `json:"extras,omitempty"`
	// price of it.
	Price *shared.Money `json:"price,omitempty"`
	// slices at least.
	Slices shared.Limited[int32] `json:"slices,omitempty"`
	// weight of the dough.
	Weight *resource.Quantity `json:"weight,omitempty"`
	// door is a port's number or name.
	Door *intstr.IntOrString `json:"door,omitempty"`
	// address is who gets it.
	Address *corev1.LocalObjectReference `json:"address,omitempty"`
	// tolerations of the guest.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// selector of the cooks.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// matrix of olives.
	Matrix [][]int32 `json:"matrix,omitempty"`
	// seal on the box.
	Seal []byte `json:"seal,omitempty"`
	// prices by size.
	Prices map[Size]shared.Money `json:"prices,omitempty"`
}

// PizzaStatus is how far it is.
type PizzaStatus struct {
	// conditions of the pizza.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// bakedAt is when it came out.
	BakedAt *metav1.Time `json:"bakedAt,omitempty"`
	// slices that there are.
	Slices int32 `json:"slices,omitempty"`
}

// Pizza is one that somebody wants.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Pizza struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the order.
	Spec PizzaSpec `json:"spec"`
	// status is how far it is.
	// +optional
	Status PizzaStatus `json:"status,omitempty"`
}

// PizzaList is several.
// +kubebuilder:object:root=true
type PizzaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pizza `json:"items"`
}
