// Package fuzz has fuzz targets for everything that a client can send: bodies in every encoding,
// patches of every type, selectors, continue tokens and revisions, paths and queries, schemas, CEL
// rules and policies. Every input goes through the whole pipeline of a control plane with policies
// and custom kinds. No input may cause a panic, take long, use much memory, or create an object
// that can't be read.
//
// `go test` runs the seeds. `make fuzz` searches for more, here and in the packages with their own
// parsers: logs, states, archives, heads of objects, request paths, markers.
package fuzz
