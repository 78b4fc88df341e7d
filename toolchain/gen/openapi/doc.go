// Package openapi writes OpenAPI definitions as Go code, as openapi-gen does:
//
//	OUTPUT/openapi/zz_generated.openapi.go    GetOpenAPIDefinitions
//	zz_generated.model_name.go                OpenAPIModelName, beside the types of packages with +k8s:openapi-model-package
//
// There is a definition for every exported struct of an API package (unless it is marked +k8s:openapi-gen=false), for those of other packages
// marked true, and for all that these refer to, so that no reference leads nowhere. Instances of generic types are written out in place.
package openapi
