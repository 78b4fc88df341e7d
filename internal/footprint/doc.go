// Package footprint reduces the resident memory of an idle process.
//
//	footprint.Release(8 << 20)
//
// A program that links Kubernetes' types has tens of megabytes of code and data. Most of these
// pages are touched only once, during initialization, but count as resident until the kernel
// reclaims them. An operator releases them a few seconds after its start, and kelson serve does so
// whenever it becomes idle.
//
// Release reduces the resident memory of an idle example operator from 19 to 5.5 MiB
// (docs/design/operator.md; make bench-operator measures it), and that of an idle kelson serve with
// 20,000 objects from 176 to 90 MiB (docs/design/performance.md).
package footprint
