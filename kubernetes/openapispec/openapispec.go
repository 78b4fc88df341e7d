// Package openapispec holds Kubernetes' own OpenAPI documents, packed so that serving them needs no
// parsing. `go generate` packs them from the module k8s.io/kubernetes; package generate describes
// the layout of the archive.
package openapispec

import _ "embed" // for the archive

//go:generate go run ./generate

// Archive is the zip archive. It is the Packed field of the engine's openapi.Config.
//
//go:embed kubernetes.zip
var Archive string
