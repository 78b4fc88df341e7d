// Package corpus has small operators on controller-runtime, each with a bug that operators had in
// production, and without it. The laboratory must find the bug, and must raise no alarm for the
// operator without it. "make explore-corpus" writes the result to docs/internals/explore.md.
//
// The operators are written for this test, from the descriptions in the issues. A ConfigMap is the
// resource that users create, and Secrets are the objects that the operator creates for it.
//
// Each folder of projects is a project as kelson explore reads it: a program, and an explore.yaml
// with what users do.
package corpus
