// Package v1beta1 has version v1beta1 of the API group restaurant.programming-kubernetes.info.
//
// +kubebuilder:object:generate=true
// +groupName=restaurant.programming-kubernetes.info
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "restaurant.programming-kubernetes.info", Version: "v1beta1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Pizza{}, &PizzaList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
