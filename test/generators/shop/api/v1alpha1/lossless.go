//go:build !lossy

package v1alpha1

const lossy = false
