// Package shop is a project that uses every generator; its tests use the generated code. `make
// generate` updates the code, and `make check` fails if it is out of date.
//
//	api/v1         the hub: kinds in and without namespaces, embedded and generic types, lists of every sort
//	api/v1alpha1   a spoke, some of whose fields have other names
//	api/shared     types that several versions use
//	pkg/generated  clients, listers, informers, apply configurations, OpenAPI
package shop
