//go:build lossy

package v1alpha1

const lossy = true // makes the round-trip test fail
