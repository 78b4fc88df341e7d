package kelson_test

import (
	"os/exec"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// TestCompiledFunctions checks that the library's types do not make each package of an operator
// compile their methods again. The go command does that for the methods of all generic structs to
// which the imported types lead, through fields and methods; interfaces end the search. It took
// 150 ms for each package that embedded operator.Deps.
func TestCompiledFunctions(t *testing.T) {
	const (
		pkg  = "./examples/welcome/internal/controller"
		most = 400 // 334 in November 2026; about twice as many with a generic queue in Deps
	)
	archive, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", pkg).Output()
	require.NoError(t, err)
	symbols, err := exec.Command("go", "tool", "nm", strings.TrimSpace(string(archive))).Output()
	require.NoError(t, err)
	var functions []string
	for line := range strings.Lines(string(symbols)) {
		if fields := strings.SplitN(strings.TrimSpace(line), " ", 3); len(fields) == 3 &&
			strings.EqualFold(fields[1], "T") {
			functions = append(functions, fields[2])
		}
	}
	if len(functions) == 0 || len(functions) > most {
		t.Errorf("%s compiles %d functions, want 1 to %d:\n%s", pkg, len(functions), most,
			strings.Join(functions, "\n"))
	}
}
