//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ginkgoLog is the output of two runs.
const ginkgoLog = `Will run 2 of 2860 specs
------------------------------
• [FAILED] [6.971 seconds]
[sig-apps] Daemon set [Serial] [It] should run (all) [Conformance] [sig-apps, Serial, Conformance]
/apps/daemon_set.go:59

  Timeline >>
  STEP: Creating
  << Timeline

  [FAILED] first
------------------------------
P [PENDING]
other
------------------------------
• [134.759 seconds]
[sig-apps] Daemon set [Serial] should run (all) [Conformance] [sig-apps, Serial, Conformance]
------------------------------
• [FAILED] [1.000 seconds]
[sig-apps] Daemon set [Serial] [It] should run (all) [Conformance] [sig-apps, Serial, Conformance]
------------------------------
• [FAILED] [0.068 seconds]
[sig-node] Pods [It] should start [Conformance] [sig-node, Conformance]
/node/pods.go:1

  Timeline >>
  [FAILED] in [It] - /node/pods.go:1
  << Timeline

  [FAILED] a | b
   c
------------------------------
`

func TestReadResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "suite.log")
	if err := os.WriteFile(file, []byte(ginkgoLog), 0o600); err != nil {
		t.Fatal(err)
	}
	specs := []string{"[sig-apps] Daemon set should run (all) [Conformance]",
		"[sig-node] Pods should start [Conformance]", "[sig-node] Pods should stop [Conformance]"}
	got, err := readResults(file, specs)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].State != passed || got[0].Runs != 3 || got[0].Name != specs[0] {
		t.Errorf("a spec that passed once: %+v", got[0])
	}
	if got[2].State != notRun {
		t.Errorf("a spec without a result: %+v", got[2])
	}
	if counts := got.counts(); counts != "3 specs: 1 passed, 1 failed, 1 not run" {
		t.Errorf("counts: %s", counts)
	}
	text := got.markdown("v1.2.3")
	for _, want := range []string{
		"| sig-apps | 1 | 1 |\n| sig-node | 2 | 0 |\n", "1 of those that passed needed more than one run.",
		`| [sig-node] Pods should start | failed | unexpected: a \| b c |`, "| [sig-node] Pods should stop | not run |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestConformanceSpecs(t *testing.T) {
	specs, err := conformanceSpecs()
	if err != nil {
		t.Fatal(err)
	}
	if len(specs) != 462 {
		t.Errorf("%d specs, want 462", len(specs))
	}
	for _, s := range specs {
		if group.FindString(s) == "" {
			t.Errorf("%q belongs to no group", s)
		}
	}
}

func TestWriteSection(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Page\n\nother\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, section := range []string{"first\n", "second\n"} {
		if err := writeSection(page, section); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# Page\n\nother\n\n" + sectionBegin + "second\n" + sectionEnd; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTar(t *testing.T) {
	var b bytes.Buffer
	if err := (files{"/a/b/c": {text: "x", mode: 0o755}, "/bin/sh": {to: "busybox"}, "/tmp/": {mode: 0o777}}).tar(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name+"→"+h.Linkname)
	}
	// Directories come before their contents.
	if want := "a/→ a/b/→ a/b/c→ bin/→ bin/sh→busybox tmp/→"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
}
