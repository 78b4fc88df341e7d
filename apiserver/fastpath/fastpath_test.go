package fastpath_test

import (
	"testing"

	"kelson.dev/apiserver/fastpath"
	"kelson.dev/internal/assert"
)

func TestDisabledByEnvironment(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "false": false, "no": false, "1": true,
		"true": true} {
		t.Setenv(fastpath.Variable, value)
		assert.Equalf(t, fastpath.DisabledByEnvironment(), want, "%s=%q", fastpath.Variable, value)
	}
}
