package scaffold

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"
)

// templateSum is the checksum of the current template. Additions and changes of the steps server-…
// did not increment version 3, because no project of an earlier kelson uses these steps.
const templateSum = "20f7149b62204cdf"

// A changed template has a new version, and the old one is kept.
func TestChangedTemplateHasNewVersion(t *testing.T) {
	if sum := sumOf(currentTemplate()); sum != templateSum {
		t.Errorf("the template has changed: put the former content of its changed files into _former/%d, "+
			"increment TemplateVersion, and set templateSum = %q", TemplateVersion, sum)
	}
	for v := 1; v < TemplateVersion; v++ {
		former, err := templateOf(v)
		if err != nil {
			t.Fatal(err)
		}
		later, err := templateOf(v + 1)
		if err != nil {
			t.Fatal(err)
		}
		if sumOf(former) == sumOf(later) {
			t.Errorf("versions %d and %d of the template are the same", v, v+1)
		}
	}
	if _, err := templateOf(TemplateVersion + 1); err == nil || !strings.Contains(err.Error(), "versions 1 to") {
		t.Errorf("with a later version: %v", err)
	}
}

func sumOf(template blueprint) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(template)) {
		sum.Write([]byte(name + "\x00"))
		sum.Write(template[name])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// New projects do not commit kubeconfigs, which have private keys, such as those of the tutorial.
func TestKubeconfigsAreIgnored(t *testing.T) {
	for _, file := range []string{"project/.gitignore", "server-project/.gitignore"} {
		lines := strings.Split(string(currentTemplate()[file]), "\n")
		if !slices.Contains(lines, "*.kubeconfig") || !slices.Contains(lines, "kubeconfig*") {
			t.Errorf("%s: %q", file, lines)
		}
	}
}
