package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HomeSpec says how a Home should be.
type HomeSpec struct {
	// foo is what the Home is about.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	Foo string `json:"foo,omitempty"`
}

// HomeStatus is how a Home was last seen to be.
type HomeStatus struct {
	// seen is spec.foo as the controller last saw it.
	// +optional
	Seen string `json:"seen,omitempty"`

	// observedGeneration is the generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say what holds of it: Ready, and, if the spec can't be followed, Accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Home is a kind of ajd.demo.welcome.domain.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Foo",type=string,JSONPath=`.spec.foo`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Home struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how it should be.
	// +required
	Spec HomeSpec `json:"spec"`

	// status is how it was last seen to be.
	// +optional
	Status HomeStatus `json:"status,omitempty"`
}

// HomeList is a list of Home objects.
// +kubebuilder:object:root=true
type HomeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Home `json:"items"`
}
