// Package fuzz has fuzz targets for everything that a client can send: bodies in every encoding, patches of every type, selectors,
// continue tokens and revisions, paths and queries, schemas, CEL rules and policies. Each goes through the whole pipeline of a control
// plane with its policies and custom kinds. No input may make it panic, take long or take much memory, nor leave an object that can't
// be read.
//
// `go test` runs the seeds; `make fuzz` looks for more, here and in the packages that have readers of their own: logs, states,
// archives, heads of objects, request paths, markers.
package fuzz
