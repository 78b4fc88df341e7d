package kelson_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// worn matches phrases that plain modern technical English does not use. CONTRIBUTING.md explains how
// to write instead.
var worn = regexp.MustCompile(`(?i)\b(anew|whoever|whomever|whom|nobody|goes on|go on|is told|are told|was told|hears of|hear of|` +
	`the way of an?|is no (object|number|list|name|kind|string|file|field|map|value)|as it were|of old|lest|thereby|likewise|` +
	`what there is|stands? in the way|in the place of|for itself alone|be it|may serve|such as are)\b`)

// unrevised lists folders and files whose prose still needs the rewrite. Remove an entry when its text
// passes; do not add one.
var unrevised = []string{
	"CHANGELOG.md",
	"Makefile",
	"README.md",
	"apiserver/admission",
	"apiserver/audit",
	"apiserver/authn",
	"apiserver/authz",
	"apiserver/crd",
	"apiserver/discovery",
	"apiserver/filters",
	"apiserver/flowcontrol",
	"apiserver/internal",
	"apiserver/metrics",
	"apiserver/openapi",
	"apiserver/pki",
	"apiserver/resource",
	"apiserver/rest",
	"apiserver/serving",
	"apiserver/store",
	"bench/figures",
	"bench/generators",
	"bench/operator",
	"cmd/kelson",
	"docs/benchmarks.md",
	"docs/conformance.md",
	"docs/design/decisions.md",
	"docs/design/operator.md",
	"docs/design/performance.md",
	"docs/design/store.md",
	"docs/differential.md",
	"docs/durability.md",
	"docs/etcd.md",
	"docs/gaps.md",
	"docs/metrics.md",
	"docs/operator/README.md",
	"docs/operator/coming-from-controller-runtime.md",
	"docs/reference/commands.md",
	"docs/security.md",
	"docs/testing.md",
	"examples/cnat",
	"examples/cronjob",
	"examples/foobar",
	"examples/ingress-manager",
	"examples/welcome",
	"kubernetes/apitest",
	"kubernetes/authorizers",
	"kubernetes/bootstrappolicy",
	"kubernetes/builtin",
	"kubernetes/controllers",
	"kubernetes/controlplane",
	"kubernetes/ephemeral",
	"kubernetes/node",
	"kubernetes/plugins",
	"kubernetes/quota",
	"kubernetes/tokens",
	"lab/testenv",
	"operator/adapter",
	"operator/client",
	"operator/clientset",
	"operator/controller",
	"operator/createorupdate.go",
	"operator/createorupdate_test.go",
	"operator/delta",
	"operator/discovery",
	"operator/doc.go",
	"operator/events",
	"operator/example_test.go",
	"operator/footprint",
	"operator/informer",
	"operator/internal",
	"operator/leader",
	"operator/main.go",
	"operator/manager",
	"operator/operatortest",
	"operator/parts_test.go",
	"operator/reconcile",
	"operator/reflector",
	"operator/store",
	"operator/story_test.go",
	"operator/trace",
	"operator/tree",
	"operator/webhook",
	"operator/workqueue",
	"test/admission",
	"test/child",
	"test/client-go",
	"test/client-node",
	"test/differential",
	"test/etcd",
	"test/fuzz",
	"test/generators",
	"test/scaffold",
	"test/section.sh",
	"test/storage",
	"toolchain/gen",
	"toolchain/scaffold",
}

// TestProse rejects worn phrases in comments and string literals of Go files, and in documentation.
func TestProse(t *testing.T) {
	found := map[string]bool{} // entries of unrevised that still have worn phrases
	check := func(name string, line int, text string) {
		match := worn.FindString(text)
		if match == "" {
			return
		}
		for _, prefix := range unrevised {
			if name == prefix || strings.HasPrefix(name, prefix+"/") {
				found[prefix] = true
				return
			}
		}
		t.Errorf("%s:%d: rewrite %q in plain English: %s", name, line, match, strings.TrimSpace(text))
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if base := d.Name(); base == "testdata" || base == "bin" || base == "node_modules" || strings.HasPrefix(base, ".") && name != "." {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go":
			if name == "prose_test.go" {
				return nil
			}
			return eachGoText(name, check)
		case ".md", ".sh":
			return eachLine(name, check)
		}
		if d.Name() == "Makefile" {
			return eachLine(name, check)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range unrevised {
		if !found[prefix] {
			t.Errorf("%s has no worn phrases: remove it from unrevised", prefix)
		}
	}
}

func eachLine(name string, check func(name string, line int, text string)) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(data), "\n") {
		check(name, i+1, line)
	}
	return nil
}

// eachGoText calls check with every line of the comments and string literals of a Go file.
func eachGoText(name string, check func(name string, line int, text string)) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file := files.AddFile(name, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return nil
		case token.COMMENT, token.STRING:
			for i, line := range strings.Split(text, "\n") {
				check(name, file.Line(pos)+i, line)
			}
		}
	}
}
