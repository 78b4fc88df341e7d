package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/linked"
)

const root = "../../.."

// tracked returns the files of the repository.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	c := exec.Command("git", append([]string{"ls-files", "-z", "--"}, patterns...)...)
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		t.Skipf("SKIPPED: the test needs a git checkout: %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	return string(data)
}

// All modules require the same version of Kubernetes and of its libraries, and the constants name
// it. Modules whose go.mod has another line would be missed by make kubernetes-version.
func TestAllModulesHaveOneVersion(t *testing.T) {
	staging := regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/([a-z-]+) (v0\.\d+\.\d+\S*)`)
	kubernetes := regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v\S+)`)
	found := 0
	for _, name := range tracked(t, "*go.mod") {
		if !follows(name) {
			continue
		}
		text := read(t, name)
		for _, m := range kubernetes.FindAllStringSubmatch(text, -1) {
			if found++; m[1] != "v"+linked.Kubernetes {
				t.Errorf("%s requires k8s.io/kubernetes %s, and package linked has v%s: run make kubernetes-version",
					name, m[1], linked.Kubernetes)
			}
		}
		for _, m := range staging.FindAllStringSubmatch(text, -1) {
			// a library with its own releases, such as k8s.io/utils
			if strings.HasPrefix(m[2], "v0.0.0-") {
				continue
			}
			if found++; m[2] != linked.Libraries {
				t.Errorf("%s requires k8s.io/%s %s, and package linked has %s: run make kubernetes-version", name, m[1],
					m[2], linked.Libraries)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d requirements found: is this the repository?", found)
	}
}

// stale are the files that may name another patch version than the linked one, with the reason.
var stale = []struct{ pattern, why string }{
	{`^CHANGELOG\.md$|^docs/internals/|^docs/issues/`, "say what was measured, released or reported with a version"},
	{`go\.sum$`, "go mod tidy writes it"},
	{`^kubernetes/linked/move/main_test\.go$`, "examples"},
}

// No text names another patch version of the linked release. Texts that name the linked version
// have its v, so that make kubernetes-version changes them. A remark about what a version does is
// checked at the next upgrade: state the minor version, or check it and change its patch version.
func TestNoStaleVersions(t *testing.T) {
	minor := strings.TrimPrefix(linked.Minor(), "1.")
	named := regexp.MustCompile(`\b(v0|v?1)\.` + minor + `\.\d+\b`)
	for _, name := range tracked(t) {
		exempt := false
		for _, s := range stale {
			exempt = exempt || regexp.MustCompile(s.pattern).MatchString(name)
		}
		if exempt {
			continue
		}
		text := read(t, name)
		if !strings.Contains(text, "."+minor+".") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			for _, v := range named.FindAllString(line, -1) {
				if v != "v"+linked.Kubernetes && v != linked.Kubernetes && v != linked.Libraries &&
					!strings.HasSuffix(v, "."+minor+".0") {
					t.Errorf("%s:%d names %s; the linked versions are v%s and %s: %s", name, i+1, v, linked.Kubernetes,
						linked.Libraries, line)
				}
			}
		}
	}
}

func TestMinor(t *testing.T) {
	if m := linked.Minor(); !strings.HasPrefix(linked.Kubernetes, m+".") || strings.Count(m, ".") != 1 {
		t.Errorf("%q of %q", m, linked.Kubernetes)
	}
}
