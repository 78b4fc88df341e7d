// Package shop is a project for which every generator runs; its tests use what they made. `make generate` brings it up to date, and
// `make check` fails if it is not.
//
//	api/v1         the hub: kinds in and without namespaces, embedded and generic types, lists of every sort
//	api/v1alpha1   a spoke, whose fields partly have other names
//	api/shared     types that several versions use
//	pkg/generated  clients, listers, informers, apply configurations, OpenAPI
package shop
