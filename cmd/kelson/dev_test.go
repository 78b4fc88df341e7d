package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain/scaffold"
)

// kelson dev reacts to saved changes of a controller, a type and a sample, and to code that does
// not compile.
func TestDevReloadsOnSave(t *testing.T) {
	require.Long(t, "takes the time of several builds")
	t.Parallel()
	source, err := scaffold.SourceOf(os.Getenv("KELSON_CHECKOUT"), "")
	require.NoError(t, err)
	dir := t.TempDir()
	made := func(_ []scaffold.Change, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	made(scaffold.Init(scaffold.InitOptions{Dir: dir, Domain: "example.com", Repo: "example.com/p", Name: "p",
		Source: source}))
	made(scaffold.CreateAPI(dir, scaffold.API{Group: "webapp", Version: "v1", Kind: "Welcome", Resource: true,
		Controller: true}))

	cmd := exec.Command(built(t, binary), "dev", dir)
	var said output
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		<-ended
		if t.Failed() {
			t.Log(said.String())
		}
	}()
	seen := 0
	says := func(part string) {
		t.Helper()
		for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if at := strings.Index(said.String()[seen:], part); at >= 0 {
				seen += at + len(part)
				return
			}
			if time.Now().After(deadline) || cmd.ProcessState != nil {
				t.Fatalf("the output lacks %q", part)
			}
		}
	}
	edit := func(name, old, new string) {
		t.Helper()
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), old) {
			t.Fatalf("%s lacks %q: %v", name, old, err)
		}
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), old, new, 1)), 0o644))
	}
	const controller, types = "internal/controller/welcome_controller.go", "api/v1/welcome_types.go"

	says("welcome/welcome-sample        created")
	says("reconciled")
	edit(controller, `Message: "Reconciled"`, `Message: "all is well"`)
	says("changed                       " + controller)
	says("restarted")
	says("patched status of welcome/welcome-sample")

	// Compile errors are shown, and the current operator keeps running.
	edit(controller, "return operator.Result{}, nil", "return operator.Result{}, undefined")
	says("✗")
	says("undefined: undefined")
	says("the former operator keeps running until the project compiles")
	edit("config/samples/webapp_v1_welcome.yaml", "foo: bar", "foo: baz")
	// The command and the operator report the change at the same time.
	before := seen
	says("changed (generation 2)")
	after := seen
	seen = before
	says("⟳ welcome reconciled (updated)")
	seen = max(seen, after)
	edit(controller, "return operator.Result{}, undefined", "return operator.Result{}, nil")
	says("changed                       " + controller)

	// The definition lacks a field of the sample.
	edit("config/samples/webapp_v1_welcome.yaml", "foo: baz", "food: baz")
	says(".spec.food: field not declared in schema; did you mean spec.foo?")
	says("correct them: kelson dev applies samples again when files change")
	edit("config/samples/webapp_v1_welcome.yaml", "food: baz", "foo: bar")
	says("changed (generation 3)")

	// A changed type becomes a changed definition in the cluster.
	edit(types, "	Foo *string", "	// +kubebuilder:validation:MinLength=1\n	Foo *string")
	says("generated config/crd/bases/webapp.example.com_welcomes.yaml")
	says("customresourcedefinition/welcomes.webapp.example.com  changed")
}
