package project

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

func TestOpenFindsMainPackage(t *testing.T) {
	for _, main := range []string{"main.go", "cmd/main.go", "cmd/manager/main.go"} {
		dir := t.TempDir()
		write(t, dir, main, "package main")
		p, err := Open(dir)
		if err != nil || p.Main != filepath.Join(p.Dir, filepath.Dir(main)) {
			t.Errorf("%s: %v %v", main, p, err)
		}
	}
	dir := t.TempDir()
	write(t, dir, "lib/lib.go", "package lib")
	_, err := Open(dir)
	assert.ErrorIsf(t, err, ErrNone, "a folder without a project")
	write(t, dir, "go.mod", "module example.com/p\n")
	_, err = Open(dir)
	assert.ErrorContainsf(t, err, "no main.go", "without a main package")
	_, err = Open(filepath.Join(dir, "lib/lib.go"))
	assert.ErrorContainsf(t, err, "not a folder", "a file")
}

func TestMainImports(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "cmd/main.go", "package main\n\nimport _ \"kelson.dev/operator/adapter\"\n")
	p, err := Open(dir)
	require.NoError(t, err)
	if p.MainImports("kelson.dev/operator") || !p.MainImports("kelson.dev/operator/adapter") {
		t.Error("MainImports confuses a package with its parent")
	}
}

// Without the go command, the error of a build names it and where to get it.
func TestBuildWithoutGo(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "main.go", "package main")
	p, err := Open(dir)
	require.NoError(t, err)
	t.Setenv("PATH", dir)
	if err := p.Build(t.Context(), filepath.Join(dir, "program")); err == nil ||
		!strings.HasSuffix(err.Error(), ": install Go, https://go.dev/dl") {
		t.Errorf("%v", err)
	}
}

// Programs are built with the user's GOFLAGS. Without flags for the linker there, programs have no
// data for debuggers.
func TestBuildWithFlagsOfTheUser(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/p\n")
	write(t, dir, "main.go", "package main\n\nfunc main() {}\n")
	t.Setenv("GOWORK", "off")
	for goflags, want := range map[string]debug.BuildSetting{
		"":                             {Key: "-ldflags", Value: "-w"},
		"-trimpath":                    {Key: "-trimpath", Value: "true"},
		"-tags=one -tags=two,three":    {Key: "-tags", Value: "two,three"},
		"-ldflags=-X=main.variant=set": {Key: "-ldflags", Value: "-X=main.variant=set"},
	} {
		t.Setenv("GOFLAGS", goflags)
		p, err := Open(dir)
		require.NoError(t, err)
		binary := filepath.Join(dir, "program")
		require.NoError(t, p.Build(t.Context(), binary))
		info, err := buildinfo.ReadFile(binary)
		require.NoError(t, err)
		if !slices.Contains(info.Settings, want) {
			t.Errorf("GOFLAGS=%s: %v", goflags, info.Settings)
		}
	}
}

// When cgo is off, the error of a build names the packages that need it. Another error of the same
// package does not.
func TestBuildWithoutCgo(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/p\n")
	write(t, dir, "main.go", "package main\n\nimport \"example.com/p/capture\"\n\nfunc main() { capture.Start() }\n")
	write(t, dir, "capture/capture.go", "package capture\n\nfunc Start() { open() }\n")
	write(t, dir, "capture/c.go", "package capture\n\n// int one() { return 1; }\nimport \"C\"\n\nfunc open() { C.one() }\n")
	p, err := Open(dir)
	require.NoError(t, err)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	t.Setenv("CGO_ENABLED", "0")
	binary := filepath.Join(dir, "program")
	if err := p.Build(t.Context(), binary); err == nil || !strings.Contains(err.Error(), "undefined: open") ||
		!strings.HasSuffix(err.Error(), "\ncgo is off, which example.com/p/capture needs: install a C compiler and its "+
			"libraries, and set CGO_ENABLED=1") {
		t.Errorf("%v", err)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "capture", "c.go")))
	if err := p.Build(t.Context(), binary); err == nil || strings.Contains(err.Error(), "cgo") {
		t.Errorf("without cgo: %v", err)
	}
}

// A pattern of packages instead of a folder is refused, with the command to use.
func TestPatternInsteadOfFolder(t *testing.T) {
	c := TestCommand()
	c.SetArgs([]string{"./..."})
	c.SilenceErrors, c.SilenceUsage = true, true
	assert.ErrorContains(t, c.Execute(), "kelson test -- ./...")
}

// Without packages, all packages are tested: go test passes what follows unknown flags to the
// tests, and the value of a flag is not a package.
func TestPackagesOfTests(t *testing.T) {
	for args, want := range map[string]string{
		"":                            "./...",
		"-v -run X":                   "./... -v -run X",
		"-v -coverprofile /tmp/c.out": "./... -v -coverprofile /tmp/c.out",
		"-coverpkg ./... -race":       "./... -coverpkg ./... -race",
		"-v -ginkgo.focus ./x":        "./... -v -ginkgo.focus ./x",
		"-test.v -args -x ./y":        "./... -test.v -args -x ./y",
		"-v ./a":                      "-v ./a",
		"-count=1 example.com/a -v":   "-count=1 example.com/a -v",
		". -ginkgo.v":                 ". -ginkgo.v",
	} {
		assert.Equalf(t, strings.Join(withPackages(strings.Fields(args)), " "), want, "%q", args)
	}
}

// Releases are emulated only by the servers of kelson envtest.
func TestReleasesNeedServersThatEmulate(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "kube-apiserver", "#!/bin/sh\n")
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	assert.ErrorContainsf(t, checkReleases([]string{"1.36"}), dir, "with other servers")
	assert.NoError(t, checkReleases(nil))
	t.Setenv("KUBEBUILDER_ASSETS", "")
	assert.NoError(t, checkReleases([]string{"1.36", "1.37"}))
	if err := checkReleases([]string{"1.37", "0.1"}); err == nil {
		t.Error("accepted an unknown release")
	}
}

// If no call of controller-gen can be adopted, nothing is generated: Kelson's own options would
// write other files. Without any call, definitions of other projects are still whole.
func TestPlanOfExistingProjects(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/shop\n")
	write(t, dir, "PROJECT", "layout: [go.kubebuilder.io/v4]\nversion: \"3\"\n")
	g := Generators{Adopt: true}
	plan, err := g.Plan(dir, nil)
	if err != nil || len(plan.runs) != 1 || plan.runs[0].Descriptions.Size != -1 {
		t.Errorf("without calls: %+v %v", plan, err)
	}
	write(t, dir, "Makefile", "crds:\n\tcontroller-gen crd rbac:roleName=$(shell name) paths=./...\n")
	plan, err = g.Plan(dir, nil)
	if err != nil || !plan.Empty() || len(plan.Notes) != 2 {
		t.Errorf("with an unknown call: %+v %v", plan, err)
	}
	g.Adopt = false
	if plan, err = g.Plan(dir, nil); err != nil || plan.Empty() || plan.runs[0].Descriptions.Size != 0 {
		t.Errorf("with Kelson's options: %+v %v", plan, err)
	}
}

// A project's Makefile cannot make Kelson write outside of its checkout, unless the user permits
// it.
func TestMakefileThatWritesOutside(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "shop")
	write(t, dir, "go.mod", "module example.com/shop\n")
	write(t, dir, "Makefile", "code:\n\tcontroller-gen rbac:roleName=r output:rbac:dir=../victim paths=./...\n")
	write(t, dir, "shop.go", "package shop\n\n// +kubebuilder:rbac:groups=a,resources=b,verbs=get\n\nfunc F() {}\n")
	g := Generators{Adopt: true}
	run := func() error {
		plan, err := g.Plan(dir, nil)
		require.NoError(t, err)
		_, err = plan.Run(t.Context())
		return err
	}
	victim := filepath.Join(top, "victim", "role.yaml")
	assert.ErrorContains(t, run(), "--write-outside")
	if _, err := os.Stat(victim); err == nil {
		t.Error("written outside")
	}
	g.Outside = true
	assert.NoError(t, run())
	_, err := os.Stat(victim)
	assert.NoError(t, err)
	g.Outside = false
	write(t, top, ".git/HEAD", "")
	assert.NoErrorf(t, run(), "in one checkout")
}

// Positions of compile errors are relative to the current folder.
func TestCompileErrorPositions(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, dir, "p/go.mod", "module example.com/p\n\ngo 1.24\n")
	write(t, dir, "p/cmd/main.go", "package main\n\nimport \"example.com/p/internal/x\"\n\nfunc main() { x.F() }\n")
	write(t, dir, "p/internal/x/x.go", "package x\n\nfunc F() { undefined() }\n")
	p, err := Open(filepath.Join(dir, "p"))
	require.NoError(t, err)
	err = p.Build(t.Context(), filepath.Join(dir, "binary"))
	want := "\n" + filepath.Join("p", "internal", "x", "x.go") + ":3:12: undefined: undefined"
	assert.ErrorContains(t, err, want)
	t.Chdir(t.TempDir()) // outside of the project, where a relative path would be longer
	err = p.Build(t.Context(), filepath.Join(dir, "binary"))
	if err == nil || strings.Contains(err.Error(), filepath.Join("..", "..")) {
		t.Errorf("from another folder: %v", err)
	}
	const elsewhere = "/elsewhere/y.go:1:2: wrong"
	if got := string(p.relative([]byte(elsewhere))); got != elsewhere {
		t.Errorf("%q became %q", elsewhere, got)
	}
}
