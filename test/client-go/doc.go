// Package clientgo tests client-go's machinery against a control plane on a TLS port: informers
// whose connections are cut, and leader election with leaders that resign and disappear. It has
// only tests; run.sh writes their results into docs/internals/conformance.md.
package clientgo
