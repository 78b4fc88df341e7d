package loop

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/cmd/kelson/internal/dev/devlog"
	"kelson.dev/cmd/kelson/internal/project"
)

// A build that Ctrl-C stopped is not an error. Other failed builds are.
func TestFailedBuildIsLogged(t *testing.T) {
	var out bytes.Buffer
	l := &Loop{cfg: Config{Project: &project.Project{}, Log: devlog.New(&out, nil)}}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	l.failBuild(stopped, errors.New("signal: killed"))
	if out.Len() > 0 {
		t.Errorf("after Ctrl-C: %s", out.String())
	}
	l.failBuild(t.Context(), errors.New("undefined: x"))
	if !strings.Contains(out.String(), "✗ undefined: x") || strings.Contains(out.String(), "keeps running") {
		t.Errorf("without a former operator: %s", out.String())
	}
}

// If some or all samples cannot be read, the log has the reason and the next step, once per cause.
func TestSamplesAreLogged(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	l := &Loop{cfg: Config{Project: &project.Project{Dir: dir}, Log: devlog.New(&out, nil)}}
	check := func(part string) {
		t.Helper()
		out.Reset()
		if err := l.checkSamples(); err != nil {
			t.Fatal(err)
		}
		if part == "" && out.Len() > 0 || !strings.Contains(out.String(), part) {
			t.Errorf("logged %q, want %q", out.String(), part)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "config", "samples"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config", "samples", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check("config/samples has none, so the operator may have nothing to do: create objects")
	write("a.yaml", "kind: [")
	check("continuing without samples until all can be read")
	check("")
	write("b.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}")
	write("a.yaml", "kind: a: b")
	check("continuing with the 1 other samples until all can be read: --samples names other files or folders")
	write("a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
	check("")
}
