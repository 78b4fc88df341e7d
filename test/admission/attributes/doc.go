// Package attributes has requests of every verb on every form of path, and a webhook that records
// what admission sees of them. The recorded reviews of kube-apiserver are the expectation for
// Kelson: make differential compares both servers, and a test of package kubernetes compares a
// control plane with the reviews that such a run has written to kube-apiserver.json.
package attributes
