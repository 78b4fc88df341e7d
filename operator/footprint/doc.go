// Package footprint reduces the resident memory of an idle process.
//
//	footprint.Release(8 << 20)
//
// A program that links Kubernetes' types has tens of megabytes of code and data. Most of these
// pages are touched only once, during initialization, but count as resident until the kernel
// reclaims them. An operator releases them a few seconds after its start, and kelson serve does so
// whenever it becomes idle.
//
// Release reduces the resident pages of an idle example operator from 18 to 5 MiB
// (docs/design/operator.md; make bench-operator measures it).
package footprint
