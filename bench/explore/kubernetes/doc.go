// Package kubernetes explores Kubernetes' own controllers: each one is the operator of a scenario,
// and the control plane of the exploration runs all controllers but this one. Its test is the
// program of "make explore-kubernetes". It writes a table to docs/internals/explore.md.
package kubernetes
