package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const sampleReport = `<testsuites><testsuite name="Kubernetes e2e suite">
<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
<testcase name="[It] [sig-api-machinery] Namespaces [Serial] should patch a Namespace [Conformance] [sig-api-machinery, Serial, Conformance]" status="passed"></testcase>
<testcase name="[It] [sig-api-machinery] Watchers should see [Conformance] [sig-api-machinery]" status="failed"><failure message="Timed out&#xA;after 5s."></failure></testcase>
<testcase name="[It] [sig-api-machinery] Watchers should skip [Conformance]" status="skipped"></testcase>
</testsuite></testsuites>`

func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "junit.xml")
	if err := os.WriteFile(file, []byte(sampleReport), 0o644); err != nil {
		t.Fatal(err)
	}
	var results results
	for _, name := range []string{
		"[sig-api-machinery] Namespaces should patch a Namespace [Conformance]",
		"[sig-api-machinery] Watchers should see [Conformance]",
		"[sig-api-machinery] Watchers should skip [Conformance]",
		"[sig-api-machinery] Watchers should be there [Conformance]",
	} {
		r, err := readReport(file, name)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	if got, want := results.counts(), "4 specs: 1 passed, 1 failed, 1 skipped, 1 not run"; got != want {
		t.Errorf("counts %q, want %q", got, want)
	}
	if got, want := results[1].reason, "Timed out after 5s."; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}

	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("# Page\n\nOurs.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call replaces the section
		if err := writeSection(page, results.markdown("v1.2.3")); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# Page\n\nOurs.\n\n"+sectionBegin) ||
		strings.Count(string(text), sectionEnd) != 1 {
		t.Errorf("page:\n%s", text)
	}
}

// TestKnown checks the list of known gaps: each line has a reason, and its pattern matches a spec.
func TestKnown(t *testing.T) {
	if got := known("[sig-api-machinery] ResourceQuota should manage the lifecycle of a ResourceQuota [Conformance]"); got != "" {
		t.Errorf("a passing spec is known to fail: %s", got)
	}
	for line := range strings.Lines(knownList) {
		pattern, why, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if why == "" {
			t.Errorf("known.txt: no reason for %q", pattern)
		}
		if !regexp.MustCompile("(?m)" + pattern).MatchString(specList) {
			t.Errorf("known.txt: no spec matches %q", pattern)
		}
	}
}

func TestFocus(t *testing.T) {
	for name := range strings.Lines(specList) {
		if _, err := regexp.Compile(focus(strings.TrimSpace(name))); err != nil {
			t.Error(err)
		}
	}
}
