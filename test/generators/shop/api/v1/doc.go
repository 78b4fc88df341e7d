// Package v1 is the second version of the shop's API, and the storage version.
//
// +kubebuilder:object:generate=true
// +groupName=shop.example.com
// +kelson:generate=register;defaults;conversion;openapi;docs;client;lister;informer;applyconfiguration
package v1
