package kelson_test

import (
	"bufio"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// forbidden lists the imports that the architecture does not allow, with the reason. A pattern ending in /... matches the package
// and everything below it. "but" are exceptions among the importers. Tests are held to the rules too unless tests is set.
var forbidden = []struct {
	from, to string
	but      []string
	tests    bool     // tests may
	except   []string // among what is imported
	why      string
}{
	// Between the wings.
	{from: "kelson.dev/operator/...", to: "kelson.dev/server/...", why: "who writes an operator must not inherit the control plane"},
	{from: "kelson.dev/operator/...", to: "kelson.dev/toolchain/...", why: "the library does not know its generators"},
	{from: "kelson.dev/operator/...", to: "kelson.dev/lab/...", why: "the library does not know the laboratory"},
	{from: "kelson.dev/operator/...", to: "k8s.io/kubernetes/...", why: "it can't be required without listing every staging module"},
	{from: "kelson.dev/operator/...", to: "k8s.io/apiserver/...", why: "operators stay light"},
	{from: "kelson.dev/operator/...", to: "k8s.io/apiextensions-apiserver/...", why: "operators stay light"},
	{from: "kelson.dev/server/...", to: "kelson.dev/toolchain/...", why: "arrows point down"},
	{from: "kelson.dev/server/...", to: "kelson.dev/lab/...", tests: true, why: "arrows point down"},
	{from: "kelson.dev/server/...", to: "kelson.dev/operator/...", but: []string{"kelson.dev/server/node/...", "kelson.dev/server/controllers/...", "kelson.dev/server/builtin/certificates", "kelson.dev/server/controlplane"},
		except: []string{"kelson.dev/operator/tree"}, tests: true, why: "only what is itself an operator uses the runtime"},
	{from: "kelson.dev/toolchain/...", to: "kelson.dev/server/...", but: []string{"kelson.dev/toolchain/vet/..."}, why: "generators need no control plane"},
	{from: "kelson.dev/toolchain/...", to: "kelson.dev/operator/...", why: "generators need no runtime"},
	{from: "kelson.dev/...", to: "kelson.dev/lab/...", but: []string{"kelson.dev/lab/...", "kelson.dev/cmd/...", "kelson.dev/bench/..."},
		tests: true, why: "the laboratory is above everything"},
	{from: "kelson.dev/...", to: "kelson.dev/cmd/...", but: []string{"kelson.dev/cmd/..."}, why: "commands are the top"},

	// Within the server.
	{from: "kelson.dev/server/store/...", to: "kelson.dev/server/resource", why: "the store knows bytes and heads, not kinds"},
	{from: "kelson.dev/server/store/...", to: "kelson.dev/server/rest", why: "the store knows nothing of verbs"},
	{from: "kelson.dev/server/resource", to: "kelson.dev/server/rest", why: "a Resource is described, not served, there"},
	{from: "kelson.dev/server/rest", to: "kelson.dev/server/builtin", tests: true, why: "the verbs know only Resource"},
	{from: "kelson.dev/server/rest", to: "kelson.dev/server/crd", tests: true, why: "the verbs know only Resource"},
	{from: "kelson.dev/server/builtin", to: "kelson.dev/server/rest", tests: true, why: "kinds are made without knowing who serves them"},
	{from: "kelson.dev/server/crd", to: "kelson.dev/server/rest", tests: true, why: "kinds are made without knowing who serves them"},
	{from: "kelson.dev/server/node/...", to: "kelson.dev/server/store", tests: true, why: "nodes are clients of the API"},
	{from: "kelson.dev/...", to: "kelson.dev/server/controlplane",
		but:   []string{"kelson.dev/server/controlplane", "kelson.dev/lab/...", "kelson.dev/cmd/...", "kelson.dev/bench/..."},
		tests: true, why: "composition packages are known to commands and the laboratory only"},
	{from: "kelson.dev/server/...", to: "k8s.io/kubernetes/...", but: []string{"kelson.dev/server/builtin/...", "kelson.dev/server/openapi/..."}, tests: true,
		why: "upstream does not support it as a library: a version bump must touch one place"},

	// Everywhere.
	{from: "kelson.dev/...", to: "sigs.k8s.io/controller-runtime/...", but: []string{"kelson.dev/bench/...", "kelson.dev/operator/adapter/..."},
		why: "it is a peer, not a part"},
	{from: "kelson.dev/...", to: "github.com/cockroachdb/pebble/...", but: []string{"kelson.dev/bench/..."}, why: "it is measured, not used"},
}

// noNames are package names that say nothing.
var noNames = map[string]bool{"pkg": true, "util": true, "utils": true, "common": true, "helpers": true, "types": true, "base": true, "misc": true}

const maxLines = 1000

type file struct {
	name, pkg string // path of the file, import path of its folder
	test      bool
	imports   []string
	lines     int
	generated bool
}

func TestArchitecture(t *testing.T) {
	files := sourceFiles(t)
	if len(files) < 20 {
		t.Fatalf("only %d files found: is this the root of the repository?", len(files))
	}
	for _, f := range files {
		for _, rule := range forbidden {
			if !matches(rule.from, f.pkg) || rule.tests && f.test || matchesAny(rule.but, f.pkg) {
				continue
			}
			for _, imported := range f.imports {
				if matches(rule.to, imported) && !matchesAny(rule.except, imported) {
					t.Errorf("%s imports %s: %s", f.name, imported, rule.why)
				}
			}
		}
		if f.lines > maxLines && !f.generated {
			t.Errorf("%s has %d lines, more than %d: split it", f.name, f.lines, maxLines)
		}
		if noNames[path.Base(f.pkg)] {
			t.Errorf("%s: a package named %s says nothing of what it offers", f.name, path.Base(f.pkg))
		}
	}
}

func TestRulesMatchSomething(t *testing.T) {
	for pattern, want := range map[string]map[string]bool{
		"kelson.dev/server/...":  {"kelson.dev/server": true, "kelson.dev/server/rest": true, "kelson.dev/serverless": false},
		"kelson.dev/server/rest": {"kelson.dev/server/rest": true, "kelson.dev/server/rest/x": false},
	} {
		for importPath, match := range want {
			if matches(pattern, importPath) != match {
				t.Errorf("matches(%q, %q) = %v", pattern, importPath, !match)
			}
		}
	}
}

func matches(pattern, importPath string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return importPath == prefix || strings.HasPrefix(importPath, prefix+"/")
	}
	return pattern == importPath
}

func matchesAny(patterns []string, importPath string) bool {
	for _, p := range patterns {
		if matches(p, importPath) {
			return true
		}
	}
	return false
}

func sourceFiles(t *testing.T) []file {
	var files []file
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); base == "testdata" || base == "bin" || strings.HasPrefix(base, ".") && name != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		f := file{
			name:      filepath.ToSlash(name),
			pkg:       path.Join("kelson.dev", filepath.ToSlash(filepath.Dir(name))),
			test:      strings.HasSuffix(name, "_test.go"),
			generated: strings.Contains(string(src[:min(len(src), 400)]), "DO NOT EDIT"),
		}
		for _, spec := range syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imported)
		}
		for lines := bufio.NewScanner(strings.NewReader(string(src))); lines.Scan(); {
			f.lines++
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
