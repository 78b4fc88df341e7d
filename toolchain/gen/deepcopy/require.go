package deepcopy

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
)

// require reports a type without a copy method that the generated code calls.
func (g *generator) require(t loader.Type, method string) {
	n, ok := t.(*loader.Named)
	if !ok || loader.FindMethod(n, method) != nil || g.declares(n, method) {
		return
	}
	if n.Decl.Pkg == g.pkg && g.expected(n) || n.Decl.Pkg != g.pkg && generates(n.Decl.Pkg) {
		return
	}
	if method == "DeepCopy" && !manual(n).any() {
		method = "DeepCopyInto" // it has neither
	}
	why := named(n) + " has no " + method + " method"
	if n.Is("time", "Time") {
		why += "; use metav1.Time"
	}
	g.fail(t, why)
}

// expected reports whether a type of this package gets methods. If the package has no marker for
// all types, exported types without one count too, as in controller-gen.
func (g *generator) expected(n *loader.Named) bool {
	return g.generated[n.Decl.Name] || !g.all && ast.IsExported(n.Decl.Name)
}

// named returns the name of a type, qualified by the name of its package.
func named(t loader.Type) string {
	if n, ok := t.(*loader.Named); ok {
		return n.Decl.Pkg.Name + "." + n.Decl.Name
	}
	return t.String()
}

// declares reports whether a file in the directory of the type's package declares a method of the
// type. It also finds methods in files that the loader does not parse, such as generated ones, but
// not those in the file that this generator replaces.
func (g *generator) declares(n *loader.Named, method string) bool {
	p := n.Decl.Pkg
	if g.sources[p] == nil {
		g.sources[p] = &sources{dir: p.Dir, own: p == g.pkg}
	}
	receiver := regexp.MustCompile(`(?m)^func \((\w+ +)?\*?` + regexp.QuoteMeta(n.Decl.Name) + `(\[[^]]*\])?\) ` +
		method + `\(`)
	for src := range g.sources[p].all {
		if receiver.Match(src) {
			return true
		}
	}
	return false
}

// sources are the Go files in a directory that declare copy methods. They are read on first use.
type sources struct {
	dir  string
	own  bool     // without the file that this generator replaces
	read [][]byte // of the generated file, then of the others
	next []string
}

// all yields the contents of the files, that of the generated file first.
func (s *sources) all(yield func([]byte) bool) {
	for i := 0; ; i++ {
		if i == len(s.read) && !s.more() || !yield(s.read[i]) {
			return
		}
	}
}

// more reads another file and reports whether there was one.
func (s *sources) more() bool {
	if s.read == nil && s.next == nil {
		// the only error is a malformed pattern
		s.next, _ = filepath.Glob(filepath.Join(s.dir, "*.go"))
		s.next = slices.DeleteFunc(s.next, func(name string) bool {
			return strings.HasSuffix(name, "_test.go") || filepath.Base(name) == FileName
		})
		if !s.own {
			s.next = slices.Insert(s.next, 0, filepath.Join(s.dir, FileName))
		}
	}
	for len(s.next) > 0 {
		src, err := os.ReadFile(s.next[0])
		s.next = s.next[1:]
		if err == nil && bytes.Contains(src, []byte(") DeepCopy")) {
			s.read = append(s.read, src)
			return true
		}
	}
	return false
}

// generates reports whether a package has a marker for the generation of copy methods, which may
// not have been generated yet.
func generates(p *loader.Package) bool {
	for _, f := range p.Files {
		for _, group := range f.Syntax.Comments {
			for _, c := range group.List {
				text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
				if strings.HasPrefix(text, "+kubebuilder:object:generate=true") ||
					strings.HasPrefix(text, "+kubebuilder:object:root=true") ||
					strings.HasPrefix(text, "+k8s:deepcopy-gen") {
					return true
				}
			}
		}
	}
	return false
}
