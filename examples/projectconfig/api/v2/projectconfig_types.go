package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProjectConfigSpec configures the operator.
type ProjectConfigSpec struct {
	// clusterName is the name of the cluster, which the operator publishes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterName string `json:"clusterName"`

	// metrics is the address at which the operator serves metrics.
	// +optional
	Metrics Endpoint `json:"metrics,omitempty"`

	// health is the address at which the operator serves health probes.
	// +optional
	Health Endpoint `json:"health,omitempty"`

	// leaderElection ensures that only one replica of the operator reconciles at a time.
	// +optional
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`

	// gracefulShutdownTimeout is how long the operator waits at shutdown for running reconciles.
	// +optional
	// +kubebuilder:default="30s"
	GracefulShutdownTimeout *metav1.Duration `json:"gracefulShutdownTimeout,omitempty"`
}

// Endpoint is an address to listen on.
type Endpoint struct {
	// bindAddress is host:port. "0" or an empty value disables the endpoint.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	BindAddress string `json:"bindAddress,omitempty"`
}

// LeaderElection configures leader election with a Lease.
type LeaderElection struct {
	// leaderElect enables leader election.
	// +optional
	LeaderElect bool `json:"leaderElect,omitempty"`

	// resourceName is the name of the Lease.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceName string `json:"resourceName,omitempty"`
}

// ProjectConfig is the configuration of an operator. Its objects are files and are never stored in
// a cluster.
// +kubebuilder:object:root=true
type ProjectConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec configures the operator.
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
