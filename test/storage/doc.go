// Package storage runs Kubernetes' tests of its storage layer against the store.
//
// k8s.io/apiserver/pkg/storage/testing has a function for each property of a storage.Interface. The
// tests run these functions over kelson.dev/apiserver/store with a thin adapter. The adapter adds
// decoding, selectors and lifetimes, which the control plane implements elsewhere (packages rest
// and controllers/expiry). It stores values as opaque bytes, so that the transformers of upstream's
// tests work.
package storage
