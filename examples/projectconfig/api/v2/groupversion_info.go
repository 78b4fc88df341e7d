// Package v2 is the API group config.demo.welcome.domain in version v2.
//
// +kubebuilder:object:generate=true
// +groupName=config.demo.welcome.domain
package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names the group and version of the kinds here.
var GroupVersion = schema.GroupVersion{Group: "config.demo.welcome.domain", Version: "v2"}

// AddToScheme makes the kinds of this package known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ProjectConfig{}, &ProjectConfigList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
