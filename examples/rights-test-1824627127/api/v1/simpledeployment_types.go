package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SimpleDeploymentSpec defines the pods of a SimpleDeployment.
type SimpleDeploymentSpec struct {
	// replicas is the desired number of pods.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`

	// image is the image that the pods run.
	// +required
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`

	// command replaces the command of the image.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`
}

// SimpleDeploymentStatus is the observed state of a SimpleDeployment.
type SimpleDeploymentStatus struct {
	// replicas is the observed number of pods.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of ready pods.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector selects the pods, as text; autoscalers read it.
	// +optional
	Selector string `json:"selector,omitempty"`

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

// SimpleDeployment is a kind of apps.demo.welcome.domain.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=sdeploy,categories=all
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SimpleDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec SimpleDeploymentSpec `json:"spec"`

	// status is the observed state.
	// +optional
	Status SimpleDeploymentStatus `json:"status,omitempty"`
}

// SimpleDeploymentList is a list of SimpleDeployment objects.
// +kubebuilder:object:root=true
type SimpleDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SimpleDeployment `json:"items"`
}
