// Package clientgo holds client-go's own machinery against a control plane at the other end of a TLS port: informers, whose connections are
// cut, and leader election, whose leaders resign and vanish. It contains only tests; run.sh writes what they say into docs/internals/conformance.md.
package clientgo
