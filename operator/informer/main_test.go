package informer_test

import (
	"os"
	"testing"

	"kelson.dev/operator/informer"
)

// form is the form of informers in all tests that do not choose one.
var form informer.Form

// TestMain runs all tests twice: with decoded and with encoded copies.
func TestMain(m *testing.M) {
	code := m.Run()
	form = informer.Compact
	os.Exit(code | m.Run())
}
