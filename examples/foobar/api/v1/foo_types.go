package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FooSpec defines the Bars of a Foo.
type FooSpec struct {
	// bars is the desired number of Bars.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Bars int32 `json:"bars"`

	// message is the text of each Bar.
	// +required
	// +kubebuilder:validation:MaxLength=1000
	Message string `json:"message"`
}

// FooStatus is the observed state of a Foo.
type FooStatus struct {
	// bars is the observed number of Bars.
	// +optional
	Bars int32 `json:"bars"`

	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Foo is a kind of foobar.demo.welcome.domain.
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.spec.bars`
// +kubebuilder:printcolumn:name="Bars",type=integer,JSONPath=`.status.bars`
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec FooSpec `json:"spec"`

	// status is the observed state.
	// +optional
	Status FooStatus `json:"status,omitempty"`
}

// FooList is a list of Foo objects.
// +kubebuilder:object:root=true
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Foo `json:"items"`
}
