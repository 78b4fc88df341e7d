package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ToppingSpec describes a topping.
type ToppingSpec struct {
	// cost is the cost of one portion, in cents.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Cost int64 `json:"cost"`
}

// Topping is a topping that pizzas may have. All namespaces share it.
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Cost",type=integer,JSONPath=`.spec.cost`
// +kubebuilder:resource:scope=Cluster
type Topping struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ToppingSpec `json:"spec"`
}

// ToppingList is a list of Topping objects.
// +kubebuilder:object:root=true
type ToppingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Topping `json:"items"`
}
