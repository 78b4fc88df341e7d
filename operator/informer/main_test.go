package informer_test

import (
	"os"
	"testing"

	"kelson.dev/operator/informer"
)

// form is that of the informers of a test, unless it is about a form.
var form informer.Form

// TestMain runs all tests twice: with objects that are kept whole, and with objects that are kept
// encoded.
func TestMain(m *testing.M) {
	code := m.Run()
	form = informer.Compact
	os.Exit(code | m.Run())
}
