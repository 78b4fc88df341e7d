package fastpath_test

import (
	"testing"

	"kelson.dev/apiserver/fastpath"
)

func TestDisabledByEnvironment(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "false": false, "no": false, "1": true,
		"true": true} {
		t.Setenv(fastpath.Variable, value)
		if got := fastpath.DisabledByEnvironment(); got != want {
			t.Errorf("%s=%q: %t, want %t", fastpath.Variable, value, got, want)
		}
	}
}
