package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PizzaSpec is the recipe of a Pizza.
type PizzaSpec struct {
	// toppings lists the names of the toppings. A name that occurs twice means two portions. The
	// order does not matter.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	Toppings []string `json:"toppings,omitempty"`
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
// +kubebuilder:printcolumn:name="Cost",type=integer,JSONPath=`.status.cost`
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
