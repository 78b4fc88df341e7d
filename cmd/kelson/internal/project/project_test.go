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

func TestOpenFindsMainPackage(t *testing.T) {
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

func TestMainImports(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "cmd/main.go", "package main\n\nimport _ \"kelson.dev/operator/adapter\"\n")
	p, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if p.MainImports("kelson.dev/operator") || !p.MainImports("kelson.dev/operator/adapter") {
		t.Error("MainImports confuses a package with its parent")
	}
}
