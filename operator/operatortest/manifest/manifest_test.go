package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/operator/operatortest/manifest"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

func TestRead(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yml":              configMap("b"),
		"a.yaml":             "# only a comment\n---\n" + configMap("a1") + "---\n" + configMap("a2") + "---\n",
		"c.json":             `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`,
		"kustomization.yaml": "resources: [a.yaml]",
		"README.md":          "nothing",
		"below/d.yaml":       configMap("d"),
	})
	got, err := manifest.Read(dir, filepath.Join(dir, "below", "d.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range got {
		names = append(names, m.Object.GetName())
	}
	if strings.Join(names, " ") != "a1 a2 b c d" {
		t.Errorf("read %v", names)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := write(t, map[string]string{
		"syntax.yaml":  "a: [",
		"scalar.yaml":  "just text",
		"nameless.yml": "apiVersion: v1\nkind: ConfigMap\n",
		"empty.yaml":   "# nothing\n",
	})
	for _, test := range []struct{ file, want string }{
		{"none", "no such file"},
		{"syntax.yaml", "syntax.yaml"},
		{"scalar.yaml", "scalar.yaml"},
		{"nameless.yml", "lacks apiVersion, kind or metadata.name"},
		{"empty.yaml", "there are none in"},
	} {
		if _, err := manifest.Read(filepath.Join(dir, test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.file, err, test.want)
		}
	}
}
