// Package v2 has version v2 of the API group config.demo.welcome.domain.
//
// +kubebuilder:object:generate=true
// +groupName=config.demo.welcome.domain
package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "config.demo.welcome.domain", Version: "v2"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ProjectConfig{}, &ProjectConfigList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
