package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Fleet is a number of Ships.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FleetSpec   `json:"spec,omitempty"`
	Status            FleetStatus `json:"status,omitempty"`
}

// FleetSpec is the desired state of a Fleet.
type FleetSpec struct {
	// +kubebuilder:validation:Minimum=0
	Ships int32 `json:"ships"`
	// Cargo is the cargo of each Ship.
	Cargo string `json:"cargo,omitempty"`
}

// FleetStatus is the observed state of a Fleet.
type FleetStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	Moored             int32 `json:"moored,omitempty"`
}

// FleetList is a list of Fleets.
// +kubebuilder:object:root=true
type FleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Fleet `json:"items"`
}

// Ship has a Berth.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Ship struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ShipSpec   `json:"spec,omitempty"`
	Status            ShipStatus `json:"status,omitempty"`
}

// ShipSpec is the desired state of a Ship.
type ShipSpec struct {
	Cargo string `json:"cargo,omitempty"`
}

// ShipStatus is the observed state of a Ship.
type ShipStatus struct {
	Berth string `json:"berth,omitempty"`
}

// ShipList is a list of Ships.
// +kubebuilder:object:root=true
type ShipList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ship `json:"items"`
}

// Berth is a place in a harbour, with a manifest of the Ship's cargo in a ConfigMap.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Berth struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BerthSpec   `json:"spec,omitempty"`
	Status            BerthStatus `json:"status,omitempty"`
}

// BerthSpec is the desired state of a Berth.
type BerthSpec struct {
	Ship string `json:"ship"`
}

// BerthStatus is the observed state of a Berth.
type BerthStatus struct {
	Manifest string `json:"manifest,omitempty"`
}

// BerthList is a list of Berths.
// +kubebuilder:object:root=true
type BerthList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Berth `json:"items"`
}
