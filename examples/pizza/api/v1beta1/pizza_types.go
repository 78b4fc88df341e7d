package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PizzaSpec is the recipe of a Pizza.
type PizzaSpec struct {
	// toppings lists the toppings and their quantities. By default, these are tomato, mozzarella
	// and salami.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Toppings []PizzaTopping `json:"toppings,omitempty"`
}

// PizzaTopping is a topping and its quantity.
type PizzaTopping struct {
	// name is the name of the Topping.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// quantity is the number of portions.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Quantity int32 `json:"quantity"`
}

// PizzaStatus is the observed state of a Pizza.
type PizzaStatus struct {
	// cost is the total cost of the toppings, in cents.
	// +optional
	Cost int64 `json:"cost,omitempty"`

	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the state: Priced.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Pizza is a kind of restaurant.programming-kubernetes.info.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Cost",type=integer,JSONPath=`.status.cost`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:subresource:status
type Pizza struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec PizzaSpec `json:"spec"`

	// status is the observed state.
	// +optional
	Status PizzaStatus `json:"status,omitempty"`
}

// PizzaList is a list of Pizza objects.
// +kubebuilder:object:root=true
type PizzaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pizza `json:"items"`
}
