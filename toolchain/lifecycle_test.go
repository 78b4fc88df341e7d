package toolchain_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/lifecycle"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// For all packages of k8s.io/api the methods equal those of prerelease-lifecycle-gen.
func TestKubernetesTypes(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	require.NoError(t, err)
	ws, err := loader.Open(context.Background(), loader.Config{Dir: strings.TrimSpace(string(out))})
	require.NoError(t, err)
	api, _ := model.Build(ws, marker.Standard()) // Kubernetes' own types have no storage versions
	packages, compared := 0, 0
	for _, p := range api.Packages {
		theirs, err := os.ReadFile(filepath.Join(p.Dir, lifecycle.FileName))
		if err != nil {
			continue
		}
		ours, err := lifecycle.Generate(p, "")
		if err != nil {
			t.Errorf("%s: %v", p.Path, err)
			continue
		}
		packages++
		want, got := methods(t, theirs), methods(t, ours)
		compared += len(want)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			assert.Equalf(t, got[name], want[name], "%s: %s", p.Path, name)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d methods, want %d", p.Path, len(got), len(want))
		}
	}
	t.Logf("%d packages, %d methods", packages, compared)
	if packages < 30 || compared < 200 {
		t.Error("compared too few methods")
	}
}

// methods returns the methods of a file, formatted without comments, by receiver and name.
func methods(t *testing.T, src []byte) map[string]string {
	t.Helper()
	found := map[string]string{}
	if src == nil {
		return found
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
	require.NoError(t, err)
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var b strings.Builder
		require.NoError(t, printer.Fprint(&b, token.NewFileSet(), fn))
		found[fmt.Sprint(fn.Recv.List[0].Type.(*ast.StarExpr).X, ".",
			fn.Name)] = strings.Join(strings.Fields(b.String()), " ")
	}
	return found
}
