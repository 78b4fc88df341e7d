// Package kubernetes contains the tests of the packages emulation, openapispec, plugins and
// scheduler, in files whose names begin with the package's. Each program of its own would link
// k8s.io/kubernetes again.
package kubernetes
