// Package multicluster runs a controller of sigs.k8s.io/multicluster-runtime on the operator
// library's adapter. It is a module of its own, so that no other module requires
// multicluster-runtime.
package multicluster
