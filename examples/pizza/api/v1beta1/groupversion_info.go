// Package v1beta1 is the API group restaurant.programming-kubernetes.info in version v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=restaurant.programming-kubernetes.info
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names the group and version of the kinds here.
var GroupVersion = schema.GroupVersion{Group: "restaurant.programming-kubernetes.info", Version: "v1beta1"}

// AddToScheme makes the kinds of this package known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Pizza{}, &PizzaList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
