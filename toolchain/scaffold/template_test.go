package scaffold

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// templateSum is the checksum of the current template. After the first release, a change of the
// template also increments templateVersion.
const templateSum = "20f7149b62204cdf"

// A changed template has a new version, and the old one is kept.
func TestChangedTemplateHasNewVersion(t *testing.T) {
	if sum := sumOf(currentTemplate()); sum != templateSum {
		t.Errorf("the template has changed: put the former content of its changed files into _former/%d and embed "+
			"it, increment templateVersion, and set templateSum = %q", templateVersion, sum)
	}
	for v := oldestTemplate; v < templateVersion; v++ {
		before, err := templateOf(v)
		require.NoError(t, err)
		later, err := templateOf(v + 1)
		require.NoError(t, err)
		if sumOf(before) == sumOf(later) {
			t.Errorf("versions %d and %d of the template are the same", v, v+1)
		}
	}
	for _, v := range []int{oldestTemplate - 1, templateVersion + 1} {
		_, err := templateOf(v)
		assert.ErrorContainsf(t, err, "this kelson has versions 5 to", "version %d", v)
	}
}

// A former version has the former content of changed files, files that were removed since, and none
// that were added.
func TestFormerTemplate(t *testing.T) {
	files := fstest.MapFS{
		"_former/2/project/Makefile": {Data: []byte("of 2")},
		"_former/2/.absent":          {Data: []byte("project/new\nproject/newer\n")},
		"_former/1/project/Makefile": {Data: []byte("of 1")},
		"_former/1/project/old":      {Data: []byte("old")},
	}
	for version, want := range map[int]string{
		3: "project/Makefile=of 3 project/new=n project/newer=n",
		2: "project/Makefile=of 2",
		1: "project/Makefile=of 1 project/old=old",
	} {
		all := blueprint{"project/Makefile": []byte("of 3"), "project/new": []byte("n"), "project/newer": []byte("n")}
		got, err := former(files, all, version, 3)
		require.NoError(t, err)
		var have []string
		for _, name := range slices.Sorted(maps.Keys(got)) {
			have = append(have, name+"="+string(got[name]))
		}
		assert.Equalf(t, strings.Join(have, " "), want, "version %d", version)
	}
	_, err := former(files, blueprint{}, 0, 3)
	assert.ErrorContainsf(t, err, "read template version 0", "without the files of a version")
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
