package kelson_test

import (
	"os/exec"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// unreachable lists packages that others must not need, directly or through their imports. Each
// import costs every program and every test program that links it.
var unreachable = []struct {
	from, to string
	but      []string // packages of from that are exempt
	why      string
}{
	{from: "kelson.dev/toolchain/...", to: "k8s.io/apiserver/...", but: []string{"kelson.dev/toolchain/vet/..."},
		why: "generators need the schemas of API servers, not their handlers"},
	{from: "kelson.dev/operator/...", to: "k8s.io/apiserver/...", why: "operators stay light"},
	{from: "kelson.dev/operator/...", to: "k8s.io/apiextensions-apiserver/...", why: "operators stay light"},
	{from: "kelson.dev/apiserver/...", to: "k8s.io/kubernetes/...",
		why: "custom API servers must be able to require the engine without it"},
}

// TestUnreachable fails if a package of this module, the engine or the library needs a package that
// it must not, even if only one of its imports imports it.
func TestUnreachable(t *testing.T) {
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./toolchain/...", "./operator/...",
		"./apiserver/...")
	out, err := list.Output()
	require.NoErrorf(t, err, "%s", list)
	packages := 0
	for line := range strings.Lines(string(out)) {
		packages++
		name, deps, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, rule := range unreachable {
			if !matches(rule.from, name) || matchesAny(rule.but, name) {
				continue
			}
			for dep := range strings.FieldsSeq(deps) {
				if matches(rule.to, dep) {
					t.Errorf("%s needs %s: %s", name, dep, rule.why)
					break
				}
			}
		}
	}
	if packages < 100 {
		t.Errorf("only %d packages were found", packages)
	}
}
