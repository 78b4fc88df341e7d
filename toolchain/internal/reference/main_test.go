package main

import "testing"

// GEN-03: the reference says what the registry knows.
func TestReferenceIsUpToDate(t *testing.T) {
	if err := run("../../../docs/reference", true); err != nil {
		t.Error(err)
	}
}
