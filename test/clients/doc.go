// Package clients tests a control plane with the clients of others: the linked-in kubectl, and
// client-go's machinery on a TLS port: informers whose connections are cut, and leader election
// with leaders that resign and disappear. It has only tests; run.sh writes the results of
// client-go's into docs/internals/conformance.md.
package clients
