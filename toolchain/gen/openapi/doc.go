// Package openapi generates OpenAPI definitions as Go code, as openapi-gen does:
//
//	OUTPUT/openapi/zz_generated.openapi.go    GetOpenAPIDefinitions
//	zz_generated.model_name.go                OpenAPIModelName, next to the types of packages with +k8s:openapi-model-package
//
// It generates definitions for the exported structs of API packages (except those marked
// +k8s:openapi-gen=false), for structs of other packages marked true, and for all types that these
// refer to, so that every reference resolves. Instances of generic types are expanded in place.
package openapi
