// Package storage holds the store against the tests that Kubernetes has for its own storage layer.
//
// k8s.io/apiserver/pkg/storage/testing has a function for each property that a storage.Interface must have. The tests here run them over
// kelson.dev/apiserver/store by a thin adapter: what it adds is the decoding of objects, selectors, and lifetimes, which the control plane
// does elsewhere (packages rest and controllers/expiry). Values are kept as opaque bytes, so that the transformations which upstream's
// tests install apply to them.
package storage
