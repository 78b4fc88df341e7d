package project

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheMainPackageIsFound(t *testing.T) {
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
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "no main.go") {
		t.Errorf("without a main package: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "lib/lib.go")); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a file: %v", err)
	}
}

func TestManifestsAreReadInOrder(t *testing.T) {
	dir := t.TempDir()
	object := func(name string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n" }
	write(t, dir, "m/b.yaml", object("b1")+"---\n"+object("b2")+"---\n# nothing\n")
	write(t, dir, "m/a.yml", object("a"))
	write(t, dir, "m/c.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`)
	write(t, dir, "m/kustomization.yaml", "resources: [a.yml]")
	write(t, dir, "m/notes.txt", "no manifest")
	p := &Project{Dir: dir}
	all, err := p.manifests("m")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Object.GetName())
	}
	if got := strings.Join(names, " "); got != "a b1 b2 c" {
		t.Errorf("got %s", got)
	}
	if none, err := p.manifests("absent"); err != nil || none != nil {
		t.Errorf("a folder that is not there: %v %v", none, err)
	}
}

func TestBadManifestsAreNamed(t *testing.T) {
	for name, text := range map[string]string{"malformed": "a: [", "no kind": "apiVersion: v1\nmetadata:\n  name: x\n", "no name": "apiVersion: v1\nkind: Pod\n"} {
		dir := t.TempDir()
		write(t, dir, "m/bad.yaml", text)
		if _, err := (&Project{Dir: dir}).manifests("m"); err == nil || !strings.Contains(err.Error(), filepath.Join("m", "bad.yaml")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
