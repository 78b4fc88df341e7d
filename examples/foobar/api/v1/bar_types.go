package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BarSpec is the desired state of a Bar.
type BarSpec struct {
	// message is the text of the Bar.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	Message string `json:"message,omitempty"`
}

// Bar is a kind of foobar.demo.welcome.domain.
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.spec.message`
type Bar struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec BarSpec `json:"spec"`
}

// BarList is a list of Bar objects.
// +kubebuilder:object:root=true
type BarList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Bar `json:"items"`
}
