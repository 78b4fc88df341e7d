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

	"kelson.dev/internal/require"
)

// forbidden lists the imports that the architecture does not allow, with the reason. A pattern that
// ends in /... matches the package and everything below it.
var forbidden = []struct {
	from, to string
	but      []string // importers that are exempt
	except   []string // imported packages that are exempt
	tests    bool     // tests are exempt
	why      string
}{
	// Between the modules: imports point down, from commands to the product to the engine.
	{from: "kelson.dev/operator/...", to: "kelson.dev/apiserver/...",
		why: "an operator must not inherit an API server"},
	{from: "kelson.dev/operator/...", to: "kelson.dev/kubernetes/...",
		why: "an operator must not inherit the control plane"},
	{from: "kelson.dev/operator/...", to: "kelson.dev/toolchain/...",
		why: "the library does not depend on its generators"},
	{from: "kelson.dev/operator/...", to: "kelson.dev/lab/...", why: "the laboratory is above the library"},
	{from: "kelson.dev/operator/...", to: "k8s.io/kubernetes/...",
		why: "requiring it means listing every staging module"},
	{from: "kelson.dev/operator/...", to: "k8s.io/apiserver/...", why: "operators stay light"},
	{from: "kelson.dev/operator/...", to: "k8s.io/apiextensions-apiserver/...", why: "operators stay light"},
	{from: "kelson.dev/apiserver/...", to: "k8s.io/kubernetes/...",
		why: "custom API servers must be able to require the engine without it"},
	{from: "kelson.dev/apiserver/...", to: "k8s.io/kubectl/...", why: "the engine's module has few dependencies"},
	{from: "kelson.dev/apiserver/...", to: "kelson.dev/kubernetes/...",
		why: "the engine does not depend on the product"},
	{from: "kelson.dev/apiserver/...", to: "kelson.dev/toolchain/...",
		why: "the engine does not depend on the product"},
	{from: "kelson.dev/apiserver/...", to: "kelson.dev/lab/...", why: "the engine does not depend on the product"},
	{from: "kelson.dev/apiserver/...", to: "kelson.dev/test/...", why: "the engine does not depend on the product"},
	{from: "kelson.dev/apiserver/...", to: "kelson.dev/operator/...",
		why: "the engine and the library are separate; what both need is in kelson.dev/internal"},
	{from: "kelson.dev/internal/...", to: "kelson.dev/...", except: []string{"kelson.dev/internal/..."},
		why: "the shared packages are below all modules"},
	{from: "kelson.dev/kubernetes/...", to: "kelson.dev/toolchain/...",
		why: "the control plane does not depend on tools"},
	{from: "kelson.dev/kubernetes/...", to: "kelson.dev/lab/...", tests: true,
		why: "the laboratory is above the control plane"},
	{from: "kelson.dev/kubernetes/...", to: "kelson.dev/operator/...",
		but: []string{"kelson.dev/kubernetes/node/...", "kelson.dev/kubernetes/controllers/...",
			"kelson.dev/kubernetes/controlplane"},
		tests: true,
		why:   "only controllers and nodes use the operator library"},
	{from: "kelson.dev/toolchain/...", to: "kelson.dev/kubernetes/...", but: []string{"kelson.dev/toolchain/vet/..."},
		why: "generators need no control plane"},
	{from: "kelson.dev/toolchain/...", to: "kelson.dev/apiserver/...", but: []string{"kelson.dev/toolchain/vet/..."},
		why: "generators need no API server"},
	{from: "kelson.dev/toolchain/...", to: "kelson.dev/operator/...", tests: true, why: "generators need no runtime"},
	{from: "kelson.dev/...", to: "kelson.dev/console/...",
		but: []string{"kelson.dev/console/...", "kelson.dev/cmd/..."}, why: "only commands serve the console"},
	{from: "kelson.dev/console/...", to: "kelson.dev/kubernetes/...", tests: true,
		why: "the console is a client of any cluster"},
	{from: "kelson.dev/console/...", to: "kelson.dev/apiserver/...", why: "the console is a client of any cluster"},
	{from: "kelson.dev/...", to: "kelson.dev/lab/...",
		but:   []string{"kelson.dev/lab/...", "kelson.dev/cmd/...", "kelson.dev/bench/...", "kelson.dev/console/..."},
		tests: true, why: "the laboratory is above everything but commands"},
	{from: "kelson.dev/...", to: "kelson.dev/cmd/...", but: []string{"kelson.dev/cmd/..."},
		why: "commands are the top"},

	// Within the engine: serving, filters, verbs, kinds, store.
	{from: "kelson.dev/apiserver/...", to: "kelson.dev/apiserver",
		but: []string{"kelson.dev/apiserver", "kelson.dev/apiserver/apiservertest"},
		why: "the library for custom API servers is above the engine's packages"},
	{from: "kelson.dev/kubernetes/...", to: "kelson.dev/apiserver", tests: true,
		why: "the control plane composes the engine itself"},
	{from: "kelson.dev/apiserver/store/...", to: "kelson.dev/apiserver/resource",
		why: "the store handles bytes and heads, not kinds"},
	{from: "kelson.dev/apiserver/store/...", to: "kelson.dev/apiserver/rest/...", why: "the store is below the verbs"},
	{from: "kelson.dev/apiserver/store/...", to: "kelson.dev/apiserver/filters/...",
		why: "the store is below the pipeline"},
	{from: "kelson.dev/apiserver/resource/...", to: "kelson.dev/apiserver/rest/...",
		why: "package resource describes kinds and does not serve them"},
	{from: "kelson.dev/apiserver/rest/...", to: "kelson.dev/apiserver/crd/...", tests: true,
		why: "the verbs depend on Resource alone"},
	{from: "kelson.dev/apiserver/rest/...", to: "kelson.dev/apiserver/filters/...", tests: true,
		why: "the verbs do not depend on the filters, which call them"},
	{from: "kelson.dev/apiserver/crd/...", to: "kelson.dev/apiserver/rest/...", tests: true,
		why: "kinds do not depend on the verbs"},
	{from: "kelson.dev/apiserver/crd/...", to: "kelson.dev/apiserver/filters/...", tests: true,
		why: "kinds do not depend on the pipeline"},

	// Within the product.
	{from: "kelson.dev/kubernetes/builtin/...", to: "kelson.dev/apiserver/rest/...", tests: true,
		why: "kinds do not depend on the verbs"},
	{from: "kelson.dev/kubernetes/node/...", to: "kelson.dev/apiserver/store/...", tests: true,
		why: "nodes are clients of the API"},
	{from: "kelson.dev/...", to: "kelson.dev/kubernetes/controlplane",
		but: []string{"kelson.dev/kubernetes/controlplane", "kelson.dev/lab/...", "kelson.dev/cmd/...",
			"kelson.dev/bench/..."},
		tests: true, why: "only commands and the laboratory compose a control plane"},
	{from: "kelson.dev/...", to: "k8s.io/kubernetes/...",
		but: []string{"kelson.dev/kubernetes/...", "kelson.dev/cmd/kelson-node", "kelson.dev/bench/...",
			"kelson.dev/test/conformance/..."}, tests: true,
		why: "upstream does not support it as a library: a version bump must touch one folder"},
	{from: "kelson.dev/kubernetes/...", to: "k8s.io/kubernetes/...", but: []string{
		"kelson.dev/kubernetes/authorizers", "kelson.dev/kubernetes/bootstrappolicy",
		"kelson.dev/kubernetes/builtin/...",
		"kelson.dev/kubernetes/controllers/certificates", "kelson.dev/kubernetes/controllers/workloads",
		"kelson.dev/kubernetes/controlplane",
		"kelson.dev/kubernetes/openapispec/generate",
		"kelson.dev/kubernetes/plugins/...", "kelson.dev/kubernetes/quota", "kelson.dev/kubernetes/scheduler",
		"kelson.dev/kubernetes/tokens", "kelson.dev/kubernetes/upstream"}, tests: true,
		why: "upstream does not support it as a library: a version bump must touch few packages"},

	// Everywhere.
	{from: "kelson.dev/...", to: "github.com/evanw/esbuild/...", but: []string{"kelson.dev/console/internal/bundle"},
		why: "it builds the console's page and is not part of it"},
	{from: "kelson.dev/...", to: "kelson.dev/console/internal/bundle", but: []string{"kelson.dev/console/build"},
		tests: true, why: "it builds the console's page and is not part of it"},
	{from: "kelson.dev/...", to: "sigs.k8s.io/controller-runtime/...",
		but: []string{"kelson.dev/bench/...", "kelson.dev/operator/adapter/...", "kelson.dev/test/adapter/..."},
		why: "it is a peer, not a part"},
	{from: "kelson.dev/...", to: "github.com/cockroachdb/pebble/...", but: []string{"kelson.dev/bench/..."},
		why: "benchmarks compare with it; nothing uses it"},
}

// noNames are package names that do not describe the content of the package.
var noNames = map[string]bool{"pkg": true, "util": true, "utils": true, "common": true, "helpers": true, "types": true,
	"base": true, "misc": true}

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
			t.Errorf("%s: the package name %s does not say what the package offers", f.name, path.Base(f.pkg))
		}
	}
}

// No chain of imports leads from the console to the control plane: the console is a client of any
// cluster.
func TestConsoleNeedsNoControlPlane(t *testing.T) {
	imports := map[string][]string{}
	for _, f := range sourceFiles(t) {
		if !f.test {
			imports[f.pkg] = append(imports[f.pkg], f.imports...)
		}
	}
	seen := map[string]bool{}
	var follow func(pkg, chain string)
	follow = func(pkg, chain string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		if matches("kelson.dev/kubernetes/...", pkg) {
			t.Errorf("%s", chain)
			return
		}
		for _, imported := range imports[pkg] {
			follow(imported, chain+" imports "+imported)
		}
	}
	for pkg := range imports {
		if matches("kelson.dev/console/...", pkg) {
			follow(pkg, pkg)
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d packages", len(seen))
	}
}

func TestRulesMatchSomething(t *testing.T) {
	for pattern, want := range map[string]map[string]bool{
		"kelson.dev/apiserver/...": {"kelson.dev/apiserver": true, "kelson.dev/apiserver/rest": true,
			"kelson.dev/apiservers": false},
		"kelson.dev/apiserver/rest": {"kelson.dev/apiserver/rest": true, "kelson.dev/apiserver/rest/x": false},
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
	require.NoError(t, err)
	return files
}
