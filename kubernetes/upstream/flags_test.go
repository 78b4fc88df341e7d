package upstream_test

import (
	"os"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/upstream"
)

// The list from which the commands take their flags has exactly the flags of the linked
// kube-apiserver, with their types and defaults. Tests of the commands show what each one does.
func TestFlags(t *testing.T) {
	const name = "../../cmd/kelson/internal/flags/kubeapiserver.tsv"
	have, err := os.ReadFile(name)
	require.NoError(t, err)
	if want := string(upstream.Flags()); string(have) != want {
		listed, linked := lines(string(have)), lines(want)
		for line := range linked {
			if !listed[line] {
				t.Errorf("kube-apiserver has %q", line)
			}
		}
		for line := range listed {
			if !linked[line] {
				t.Errorf("kube-apiserver does not have %q", line)
			}
		}
		t.Error("decide what each flag does, and run go generate ./cmd/kelson/internal/flags")
	}
}

func lines(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		all[strings.TrimSuffix(line, "\n")] = true
	}
	return all
}
