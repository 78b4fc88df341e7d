// Package v1 has version v1 of the API group apps.demo.welcome.domain.
//
// +kubebuilder:object:generate=true
// +groupName=apps.demo.welcome.domain
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "apps.demo.welcome.domain", Version: "v1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &SimpleDeployment{}, &SimpleDeploymentList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
