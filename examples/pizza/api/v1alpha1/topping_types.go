package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ToppingSpec is what is known of a topping.
type ToppingSpec struct {
	// cost of one portion, in cents.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Cost int64 `json:"cost"`
}

// Topping is what a pizza may have. All restaurants share them.
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
