package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProjectConfigSpec is how the operator runs.
type ProjectConfigSpec struct {
	// clusterName is what the operator calls the cluster that it runs in.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterName string `json:"clusterName"`

	// metrics of the operator.
	// +optional
	Metrics Endpoint `json:"metrics,omitempty"`

	// health probes of the operator.
	// +optional
	Health Endpoint `json:"health,omitempty"`

	// leaderElection lets one replica of several do the work.
	// +optional
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`

	// gracefulShutdownTimeout is what the operator has to end what it has begun.
	// +optional
	// +kubebuilder:default="30s"
	GracefulShutdownTimeout *metav1.Duration `json:"gracefulShutdownTimeout,omitempty"`
}

// Endpoint is where something is served.
type Endpoint struct {
	// bindAddress is host:port; "0" or nothing is nowhere.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	BindAddress string `json:"bindAddress,omitempty"`
}

// LeaderElection is by a Lease.
type LeaderElection struct {
	// leaderElect is whether there is one.
	// +optional
	LeaderElect bool `json:"leaderElect,omitempty"`

	// resourceName is the name of the Lease.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceName string `json:"resourceName,omitempty"`
}

// ProjectConfig is the configuration of an operator: a kind whose objects are files.
// +kubebuilder:object:root=true
type ProjectConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the operator runs.
	// +required
	Spec ProjectConfigSpec `json:"spec"`
}

// ProjectConfigList is a list of ProjectConfig objects.
// +kubebuilder:object:root=true
type ProjectConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProjectConfig `json:"items"`
}
