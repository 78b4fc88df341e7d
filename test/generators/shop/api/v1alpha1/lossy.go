//go:build lossy

package v1alpha1

const lossy = true // for the test of the tests
