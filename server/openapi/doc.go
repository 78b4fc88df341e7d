// Package openapi serves the OpenAPI documents of a control plane: /openapi/v3, one document per group version with an index of
// their hashes, and /openapi/v2, one document for all.
//
// Documents of Kubernetes' own kinds come ready-made from the archive kubernetes.zip, which `go generate` packs from the module
// k8s.io/kubernetes; a compressed document goes to the client as it lies in the archive. Documents of custom kinds come from
// [Custom], are built when somebody asks for them, and kept as long as their hash stays the same. Only group versions that the
// registry serves are shown.
//
// The document of v2 is joined from parts without parsing them; see internal/generate for the archive's layout.
//
//	handler := openapi.New(openapi.Config{Registry: registry, Custom: definitions})
//	mux.Handle("/openapi/v2", handler); mux.Handle("/openapi/v3", handler); mux.Handle("/openapi/v3/", handler)
package openapi

//go:generate go run ./internal/generate
