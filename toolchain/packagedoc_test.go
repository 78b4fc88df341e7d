package toolchain_test

import (
	"os"
	"regexp"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain"
)

// The package comment lists the same generators as Generators, those that run by default and those
// on request.
func TestPackageCommentListsGenerators(t *testing.T) {
	source, err := os.ReadFile("toolchain.go")
	require.NoError(t, err)
	onRequest := regexp.MustCompile(`(?m)^// These run for packages that request them`).FindIndex(source)
	if onRequest == nil {
		t.Fatal("the package comment has no list of generators on request")
	}
	for _, g := range toolchain.Generators() {
		list := source[onRequest[0]:]
		if g.Default {
			list = source[:onRequest[0]]
		}
		if !regexp.MustCompile(`(?m)^//\t` + g.Name + ` `).Match(list) {
			t.Errorf("the package comment lacks %s in its list (by default: %t)", g.Name, g.Default)
		}
	}
}
