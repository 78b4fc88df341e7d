// Package v1alpha1 is the first version of the shop's API.
//
// +kubebuilder:object:generate=true
// +groupName=shop.example.com
// +k8s:conversion-gen=kelson.dev/test/generators/shop/api/v1
// +kelson:generate=register;conversion
package v1alpha1
