package crd

import (
	"testing"

	"k8s.io/apiserver/pkg/cel"
)

// Identifiers are escaped as the API server does, and names that it does not accept have none.
func TestCELIdentifier(t *testing.T) {
	names := append([]string{"", "a", "a-b", "a.b", "a/b", "a__b", "___", "_", "-", "1a", "a1", "a b", "ä", "$ref",
		"x-kubernetes"}, celReserved...)
	for _, name := range names {
		got, ok := celIdentifier(name)
		if want, wanted := cel.Escape(name); got != want || ok != wanted {
			t.Errorf("%q is %q, %v; want %q, %v", name, got, ok, want, wanted)
		}
	}
}
