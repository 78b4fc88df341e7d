package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WelcomeSpec defines a web page that welcomes someone.
type WelcomeSpec struct {
	// name is the name that the page welcomes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name"`

	// replicas is the desired number of pods that serve the page.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas int32 `json:"replicas"`

	// image is the image of the pods. It must have a shell and BusyBox' httpd.
	// +optional
	// +kubebuilder:default="busybox:1.37"
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`
}

// WelcomeStatus is the observed state of a Welcome.
type WelcomeStatus struct {
	// url is the URL of the page within the cluster.
	// +optional
	URL string `json:"url,omitempty"`

	// availableReplicas is the number of pods that serve the page.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

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

// Welcome is a kind of webapp.demo.welcome.domain.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Welcome struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec WelcomeSpec `json:"spec"`

	// status is the observed state.
	// +optional
	Status WelcomeStatus `json:"status,omitempty"`
}

// WelcomeList is a list of Welcome objects.
// +kubebuilder:object:root=true
type WelcomeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Welcome `json:"items"`
}
