package plugin

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The links of the kubectl plugin are created and replaced, with a warning if their folder is not
// in $PATH. Another program is not replaced.
func TestInstall(t *testing.T) {
	extension := map[string]string{"windows": ".exe"}[runtime.GOOS]
	dir := t.TempDir()
	self := filepath.Join(dir, "kelson")
	require.NoError(t, os.WriteFile(self, []byte("binary"), 0o755))
	to := filepath.Join(dir, "bin")
	for range 2 { // a second call replaces the links
		var out, errOut bytes.Buffer
		require.NoError(t, install(self, to, &out, &errOut))
		for _, name := range []string{"kubectl-kelson" + extension, "kubectl_complete-kelson" + extension} {
			data, err := os.ReadFile(filepath.Join(to, name))
			if err != nil || string(data) != "binary" || !strings.Contains(out.String(), filepath.Join(to, name)) {
				t.Errorf("%s: %v, %q", name, err, out.String())
			}
		}
		assert.Containsf(t, errOut.String(), "not in $PATH", "no warning")
	}
	other := filepath.Join(to, "kubectl-kelson"+extension)
	require.NoError(t, os.Remove(other))
	require.NoError(t, os.WriteFile(other, []byte("another program"), 0o755))
	err := install(self, to, &bytes.Buffer{}, &bytes.Buffer{})
	assert.ErrorContainsf(t, err, "not a link to kelson", "another program was replaced")
}

// Where symbolic links are forbidden, or succeed without a file as in Wine, the plugin is a hard
// link or a copy.
func TestInstallWithoutSymbolicLinks(t *testing.T) {
	forbidden := func(string, string) error { return os.ErrPermission }
	nothing := func(string, string) error { return nil }
	type way = func(file, name string) error
	for name, tt := range map[string]struct {
		ways []way
		same bool
	}{
		"hard link":                       {[]way{forbidden, os.Link, duplicate}, true},
		"hard link, as in Wine":           {[]way{nothing, os.Link, duplicate}, true},
		"copy":                            {[]way{nothing, forbidden, duplicate}, false},
		"symbolic link, where it is made": {[]way{os.Symlink, os.Link, duplicate}, true},
	} {
		dir := t.TempDir()
		self, path := filepath.Join(dir, "kelson.exe"), filepath.Join(dir, Name+".exe")
		require.NoError(t, os.WriteFile(self, []byte("binary"), 0o755))
		if err := link(self, path, tt.ways...); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		data, err := os.ReadFile(path)
		own, ownErr := os.Stat(self)
		other, otherErr := os.Stat(path)
		if err := errors.Join(err, ownErr, otherErr); err != nil || string(data) != "binary" ||
			os.SameFile(own, other) != tt.same || other.Mode() != own.Mode() {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}

	dir := t.TempDir()
	path := filepath.Join(dir, Name)
	err := link(filepath.Join(dir, "kelson"), path, nothing, forbidden, duplicate)
	if _, statErr := os.Lstat(path); !errors.Is(err, os.ErrPermission) || !errors.Is(err, os.ErrNotExist) ||
		!errors.Is(statErr, os.ErrNotExist) {
		t.Errorf("nothing was installed without an error: %v, %v", err, statErr)
	}
	if len(ways("linux")) != 1 || len(ways("windows")) != 3 {
		t.Error("only Windows has hard links and copies")
	}
}

func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		invoked string
		args    string
		want    string
		ok      bool
	}{
		{"/usr/bin/kubectl-kelson", "why pod/x", "why pod/x", true},
		{"kubectl_complete-kelson", "why --", "__complete why --", true},
		{"kubectl-kelson.exe", "version", "version", true},
		{"/usr/bin/kelson", "why", "", false},
	} {
		got, ok := Arguments(tt.invoked, strings.Fields(tt.args))
		if ok != tt.ok || strings.Join(got, " ") != tt.want {
			t.Errorf("%s %s: %v, %v", tt.invoked, tt.args, got, ok)
		}
	}
}

func TestKrewManifest(t *testing.T) {
	dir := t.TempDir()
	linux, windows := filepath.Join(dir, "kelson-linux-amd64.tar.gz"), filepath.Join(dir, "kelson-windows-arm64.zip")
	for _, name := range []string{linux, windows, filepath.Join(dir, "other.tar.gz")} {
		require.NoError(t, os.WriteFile(name, nil, 0o644))
	}
	run := func(args ...string) (string, error) {
		root := &cobra.Command{Use: "kelson", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(Command())
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append([]string{"kubectl-plugin", "krew-manifest"}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	out, err := run("--version", "v1.2.3", "--url", "https://example.com/d/", linux, windows)
	require.NoError(t, err)
	var m struct {
		Kind string
		Spec struct {
			Version   string
			Platforms []platform
		}
	}
	err = yaml.UnmarshalStrict([]byte(out), &struct {
		APIVersion string `json:"apiVersion"`
		Metadata   any    `json:"metadata"`
		Kind, Spec any
	}{})
	assert.NoError(t, err)
	require.NoError(t, yaml.Unmarshal([]byte(out), &m))
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if m.Kind != "Plugin" || m.Spec.Version != "v1.2.3" || len(m.Spec.Platforms) != 2 {
		t.Fatalf("got %+v", m)
	}
	if p := m.Spec.Platforms[1]; p.URI != "https://example.com/d/kelson-windows-arm64.zip" || p.SHA256 != empty ||
		p.Bin != "kelson.exe" || p.Selector.MatchLabels["arch"] != "arm64" {
		t.Errorf("got %+v", p)
	}
	for _, args := range [][]string{
		{"--version", "1.2", "--url", "https://x", linux}, {"--version", "v1.2.3", "--url", "http://x", linux},
		{"--version", "v1.2.3", "--url", "https://x", filepath.Join(dir, "other.tar.gz")},
		{"--version", "v1.2.3", "--url", "https://x", filepath.Join(dir, "kelson-linux-arm64.tar.gz")},
	} {
		if out, err := run(args...); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}
