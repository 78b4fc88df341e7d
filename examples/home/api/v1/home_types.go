package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HomeSpec is the desired state of a Home.
type HomeSpec struct {
	// foo is any text. The controller copies it to the status.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	Foo string `json:"foo,omitempty"`
}

// HomeStatus is the observed state of a Home.
type HomeStatus struct {
	// seen is spec.foo as the controller last saw it.
	// +optional
	Seen string `json:"seen,omitempty"`

	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the state: Ready, and Accepted if the spec is
	// invalid.
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

	// spec is the desired state.
	// +required
	Spec HomeSpec `json:"spec"`

	// status is the observed state.
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
