// Package v1 is the second edition of the shop's API, and the one that is stored.
//
// +kubebuilder:object:generate=true
// +groupName=shop.example.com
// +kelson:generate=register;defaults;conversion;openapi;docs;client;lister;informer;applyconfiguration
package v1
