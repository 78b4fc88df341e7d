package toolchain_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/vet/migrate"
)

// readOfMigrate reads a fixture, whose modules are all local.
func readOfMigrate(t *testing.T, dir string) *migrate.Report {
	t.Helper()
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOPROXY", "off")
	report, err := migrate.Read(t.Context(), dir)
	require.NoError(t, err)
	return report
}

// Each use in a small project has the right verdict, for both ways to move.
func TestRead(t *testing.T) {
	report := readOfMigrate(t, "vet/migrate/testdata/shop")
	if report.Module != "example.com/shop" || report.Runtime != "v0.24.1" || report.Packages != 2 {
		t.Errorf("module %s, controller-runtime %s, %d packages", report.Module, report.Runtime, report.Packages)
	}
	want := []string{
		"go.mod:1 change sigs.k8s.io/controller-runtime v0.24.1",
		"main.go:15 change ctrl.NewManager",
		"main.go:16 stays cache.Options.NewInformer",
		"main.go:25 stays Informer.(SharedIndexInformer)",
		"main.go:26 stays informers.NewSharedInformerFactory",
	}
	var got []string
	for _, f := range report.Program {
		got = append(got, line(f))
	}
	assert.Equalf(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "the program")
	if len(report.Reconcilers) != 1 {
		t.Fatalf("reconcilers: %+v", report.Reconcilers)
	}
	r := report.Reconcilers[0]
	if r.Name != "internal.ShopReconciler" || r.File != "internal/shop.go" || r.Line != 19 {
		t.Errorf("reconciler %s at %s:%d", r.Name, r.File, r.Line)
	}
	found := map[string]bool{}
	for _, f := range r.Findings {
		found[line(f)] = true
	}
	for _, want := range []string{
		"internal/shop.go:21 moves client.Client.Get", "internal/shop.go:24 moves client.SubResourceWriter.Update",
		"internal/shop.go:27 moves reconcile.Result.RequeueAfter",
		"internal/shop.go:32 change ctrl.NewControllerManagedBy",
		"internal/shop.go:33 moves builder.Builder.For", "internal/shop.go:35 moves builder.Builder.WatchesMetadata",
		"internal/shop.go:36 stays controller.Options.UsePriorityQueue",
		"internal/shop.go:37 moves builder.Builder.Complete",
		// These uses are in other declarations that the reconciler consists of.
		"internal/setup.go:14 moves reconcile.Result.Requeue",
		"internal/setup.go:21 moves client.SubResourceWriter.Update",
		"internal/setup.go:24 moves reconcile.Result.Requeue",
		"internal/setup.go:28 change ctrl.NewControllerManagedBy",
	} {
		if !found[want] {
			t.Errorf("no finding %q", want)
		}
	}
	for _, f := range r.Findings {
		if f.Name == "reconcile.Result.Requeue" && strings.Contains(f.Advice, "remove") != (f.Line == 24) {
			t.Errorf("%s: advice %q", line(f), f.Advice)
		}
	}
	var elsewhere []string
	for _, f := range report.Elsewhere {
		elsewhere = append(elsewhere, line(f))
	}
	if want := []string{"internal/setup.go:33 change ctrl.NewControllerManagedBy",
		"main.go:21 change cluster.Cluster.GetClient", "main.go:24 change cluster.Cluster.GetCache"}; !slices.Equal(elsewhere, want) {
		t.Errorf("elsewhere: %q, want %q", elsewhere, want)
	}
}

func line(f migrate.Finding) string {
	return fmt.Sprintf("%s:%d %s %s", f.File, f.Line, f.Verdict, f.Name)
}

// A project that does not compile, or does not use controller-runtime, is an error with that cause.
func TestReadErrors(t *testing.T) {
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(text), 0o600))
	}
	write("go.mod", "module example.com/empty\n\ngo 1.26.0\n")
	write("main.go", "package main\n\nfunc main() {}\n")
	_, err := migrate.Read(t.Context(), dir)
	assert.ErrorContainsf(t, err, "does not use", "a project without controller-runtime")
	write("main.go", "package main\n\nfunc main() { missing() }\n")
	_, err = migrate.Read(t.Context(), dir)
	assert.ErrorContainsf(t, err, "does not compile", "a project that does not compile")
}
