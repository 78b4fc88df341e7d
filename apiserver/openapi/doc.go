// Package openapi serves the OpenAPI documents of a control plane: /openapi/v3, one document per
// group version with an index of their hashes, and /openapi/v2, one document for all.
//
// Documents of compiled kinds come ready-made from an archive ([Config].Packed); the handler sends
// a compressed document exactly as the archive holds it. Documents of custom kinds come from
// [Custom]. They are built on first request and kept while their hash stays the same. Only group
// versions that the registry serves are shown.
//
// The v2 document is joined from parts without parsing them.
//
//	handler := openapi.New(openapi.Config{Registry: registry, Custom: definitions})
//	mux.Handle("/openapi/v2", handler); mux.Handle("/openapi/v3", handler); mux.Handle("/openapi/v3/", handler)
package openapi
