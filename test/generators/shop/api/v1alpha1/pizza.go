package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/test/generators/shop/api/shared"
)

// Size is the size of a pizza.
type Size string

// Topping is one topping of a pizza.
type Topping struct {
	// name is the name of the topping.
	Name string `json:"name"`
	// grams is the weight of the topping in grams.
	Grams int32 `json:"grams,omitempty"`
	// notes has notes about the topping, by subject.
	Notes map[string]string `json:"notes,omitempty"`
}

// Baking describes how a pizza is baked.
type Baking struct {
	// degrees is the temperature of the oven in degrees Celsius.
	Degrees *int32 `json:"degrees,omitempty"`
	// duration is the time in the oven.
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// PizzaSpec is the desired state of a Pizza.
type PizzaSpec struct {
	Baking `json:",inline"`

	// size is the size of the pizza.
	Size Size `json:"size,omitempty"`
	// extras are the toppings. v1 calls this field toppings.
	Extras []Topping `json:"extras,omitempty"`
	// price is the price of the pizza.
	Price *shared.Money `json:"price,omitempty"`
	// slices is the number of slices, and its maximum.
	Slices shared.Limited[int32] `json:"slices,omitempty"`
	// weight is the weight of the dough.
	Weight *resource.Quantity `json:"weight,omitempty"`
	// door is the number or the name of the door for the delivery.
	Door *intstr.IntOrString `json:"door,omitempty"`
	// address refers to the object with the customer's address.
	Address *corev1.LocalObjectReference `json:"address,omitempty"`
	// tolerations lists the customer's tolerations.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// selector selects the cooks.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// matrix has the positions of the olives.
	Matrix [][]int32 `json:"matrix,omitempty"`
	// seal is the seal of the box.
	Seal []byte `json:"seal,omitempty"`
	// prices lists the prices by size.
	Prices map[Size]shared.Money `json:"prices,omitempty"`
}

// PizzaStatus is the observed state of a Pizza.
type PizzaStatus struct {
	// conditions are the conditions of the pizza.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// bakedAt is the time at which the pizza was taken from the oven.
	BakedAt *metav1.Time `json:"bakedAt,omitempty"`
	// slices is the current number of slices.
	Slices int32 `json:"slices,omitempty"`
}

// Pizza is the order of a pizza.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Pizza struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec PizzaSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status PizzaStatus `json:"status,omitempty"`
}

// PizzaList is a list of Pizzas.
// +kubebuilder:object:root=true
type PizzaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pizza `json:"items"`
}
