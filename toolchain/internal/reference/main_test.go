package main

import "testing"

// The reference equals the registry.
func TestReferenceIsUpToDate(t *testing.T) {
	if err := run("../../../docs/reference", true); err != nil {
		t.Error(err)
	}
}
