// Package v1 has the kinds of an operator that is built on controller-runtime.
// +kubebuilder:object:generate=true
// +groupName=sea.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: "sea.example.com", Version: "v1"}

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Fleet{}, &FleetList{}, &Ship{}, &ShipList{}, &Berth{}, &BerthList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
