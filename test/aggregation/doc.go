// Package aggregation runs Kubernetes' sample API server (wardle, k8s.io/sample-apiserver) as a
// process behind kelson serve, with the linked-in kubectl as the client. The conformance spec of
// the aggregator does the same with containers.
package aggregation
