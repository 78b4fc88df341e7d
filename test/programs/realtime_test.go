package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// TestRealTime checks that tests do not depend on the speed of the machine. Outside of bubbles of
// testing/synctest, a test may not sleep, except between the attempts of a loop, give up after less
// than a minute, or compare durations. realTime lists the functions that may, with reasons.
func TestRealTime(t *testing.T) {
	t.Chdir("../..")
	packages := map[string]map[string]*ast.File{}
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if base := filepath.Base(name); base == "testdata" || base == "bin" ||
				strings.HasPrefix(base, ".") && name != "." {
				return filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		if packages[dir] == nil {
			packages[dir] = map[string]*ast.File{}
		}
		packages[dir][filepath.ToSlash(name)] = f
		return nil
	})
	require.NoError(t, err)
	used := map[string]bool{}
	for dir, sources := range packages {
		for _, use := range realTimeUses(files, sources) {
			key := path.Join(dir, use.function)
			if realTime[key] == "" && !measures(dir) {
				t.Errorf("%s: %s %s: run it in a bubble of testing/synctest, wait for a state for a minute or more, or add %q to realTime with a reason",
					use.position, use.function, use.what, key)
			}
			used[key] = true
		}
	}
	for key, reason := range realTime {
		if !used[key] || reason == "" {
			t.Errorf("realTime: %q (%q): the function does not depend on real time, or there is no reason", key, reason)
		}
	}
}

// measures reports whether the tests of a folder measure: they are not a part of make test.
func measures(dir string) bool {
	return strings.HasPrefix(dir, "bench") || dir == "test/nodes" || strings.HasPrefix(dir, "test/conformance") ||
		strings.HasPrefix(dir, "test/adapter")
}

// TestRealTimeUses checks the search itself.
func TestRealTimeUses(t *testing.T) {
	const source = `package x
func TestA(t *testing.T) {
	time.Sleep(time.Second)
	synctest.Test(t, func(t *testing.T) { time.Sleep(time.Hour); virtual(); both() })
	bubble(t, func() { time.Sleep(time.Hour) })
	both()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {}
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(time.Millisecond) {}
	env.Eventually(t, 5*short, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	if time.Since(x) > 9*short || b.Sub(a) < limit || time.Since(x) > time.Minute {}
}
const short = time.Second
func bubble(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) { f() }) }
func virtual() { time.Sleep(time.Second); deeper() }
func deeper() { <-time.After(time.Second) }
func both() { <-time.After(2*time.Second) }
`
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "x_test.go", source, 0)
	require.NoError(t, err)
	var got []string
	for _, use := range realTimeUses(files, map[string]*ast.File{"x_test.go": f}) {
		got = append(got, fmt.Sprint(files.Position(f.Pos()).Line+strings.Count(source[:use.offset], "\n"), " ",
			use.function, " ", use.what))
	}
	want := []string{"3 TestA sleeps", "7 TestA gives up after 30s", "9 TestA gives up after 5s",
		"11 TestA compares durations", "11 TestA compares durations", "17 both gives up after 2s"}
	assert.Slice(t, got, want)
}

type realTimeUse struct {
	function, what string
	position       token.Position
	offset         int
}

// realTimeUses returns the uses of real time in the test files of a folder. A function runs in a
// bubble if all its uses do: in a function that is passed to synctest.Test, or to a function that
// calls synctest.Test. Two functions with one name count as one.
func realTimeUses(files *token.FileSet, sources map[string]*ast.File) []realTimeUse {
	s := search{constants: map[string]ast.Expr{}, bubbles: map[string]bool{}, real: map[string]bool{},
		uses: map[string][]string{}, used: map[string]bool{}}
	var functions []*ast.FuncDecl
	for _, name := range slices.Sorted(mapKeys(sources)) {
		for _, d := range sources[name].Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				functions = append(functions, f)
				if !isEntry(f.Name.Name) && strings.Contains(callsOf(f.Body), " synctest.Test ") {
					s.bubbles[f.Name.Name] = true
				}
			} else if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, spec := range g.Specs {
					v := spec.(*ast.ValueSpec)
					for i, value := range v.Values {
						s.constants[v.Names[i].Name] = value
					}
				}
			}
		}
	}
	for _, f := range functions {
		s.references(f)
	}
	for changed := true; changed; {
		changed = false
		for _, f := range functions {
			name := f.Name.Name
			if s.real[name] || !isEntry(name) && s.used[name] && !s.calledInRealTime(name) {
				continue
			}
			s.real[name], changed = true, true
		}
	}
	var found []realTimeUse
	for _, f := range functions {
		if !s.real[f.Name.Name] {
			continue
		}
		s.walk(f.Body, func(n ast.Node, loop bool) {
			if what := s.dependence(n, loop); what != "" {
				position := files.Position(n.Pos())
				found = append(found, realTimeUse{f.Name.Name, what, position, position.Offset})
			}
		})
	}
	return found
}

func mapKeys(m map[string]*ast.File) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// isEntry reports whether the go command calls the function.
func isEntry(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example") ||
		name == "init"
}

type search struct {
	constants map[string]ast.Expr
	bubbles   map[string]bool     // functions that call their argument in a bubble
	uses      map[string][]string // functions that use a function outside of bubbles
	used      map[string]bool     // functions that some function uses
	real      map[string]bool     // functions that run in real time
}

// references records the functions that f uses, by all names in its body.
func (s *search) references(f *ast.FuncDecl) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			s.used[id.Name] = true
		}
		return true
	})
	s.walk(f.Body, func(n ast.Node, _ bool) {
		if id, ok := n.(*ast.Ident); ok && id.Name != f.Name.Name {
			s.uses[id.Name] = append(s.uses[id.Name], f.Name.Name)
		}
	})
}

func (s *search) calledInRealTime(name string) bool {
	return slices.ContainsFunc(s.uses[name], func(by string) bool { return s.real[by] })
}

// walk calls visit for the nodes outside of bubbles; loop is true in the post statement and the
// body of a loop.
func (s *search) walk(root ast.Node, visit func(n ast.Node, loop bool)) {
	var descend func(n ast.Node, loop bool)
	descend = func(n ast.Node, loop bool) {
		ast.Inspect(n, func(m ast.Node) bool {
			switch m := m.(type) {
			case nil:
				return false
			case *ast.CallExpr:
				visit(m, loop)
				if name := calledName(m); name == "synctest.Test" || s.bubbles[name] {
					return false
				}
				return true
			case *ast.ForStmt:
				if m.Init != nil {
					descend(m.Init, loop)
				}
				if m.Cond != nil {
					descend(m.Cond, loop)
				}
				if m.Post != nil {
					descend(m.Post, true)
				}
				descend(m.Body, true)
				return false
			}
			visit(m, loop)
			return true
		})
	}
	descend(root, false)
}

// dependence says how a node depends on real time, or returns "".
func (s *search) dependence(n ast.Node, loop bool) string {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if !slices.Contains([]token.Token{token.LSS, token.GTR, token.LEQ, token.GEQ}, n.Op) ||
			!isElapsed(n.X) && !isElapsed(n.Y) {
			return ""
		}
		limit := n.Y
		if isElapsed(n.Y) {
			limit = n.X
		}
		if d, ok := s.duration(limit, 0); !ok || d < time.Minute { // otherwise it is a deadline
			return "compares durations"
		}
	case *ast.CallExpr:
		name := calledName(n)
		short := func(i int) string {
			if i >= len(n.Args) {
				return ""
			}
			if d, ok := s.duration(n.Args[i], 0); ok && d < time.Minute {
				return "gives up after " + d.String()
			}
			return ""
		}
		switch {
		case name == "time.Sleep" && !loop:
			return "sleeps"
		case name == "time.After" && !loop:
			return short(0)
		case name == "context.WithTimeout", strings.HasSuffix(name, ".Eventually"):
			return short(1)
		case name == "Now.Add":
			return short(0)
		}
	}
	return ""
}

func isElapsed(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	return ok && (calledName(call) == "time.Since" || strings.HasSuffix(calledName(call), ".Sub"))
}

// calledName returns the name of a called function: F, or X.F with X the last name before it.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		switch x := f.X.(type) {
		case *ast.Ident:
			return x.Name + "." + f.Sel.Name
		case *ast.CallExpr:
			if inner := calledName(x); inner == "time.Now" {
				return "Now." + f.Sel.Name
			}
		}
		return "." + f.Sel.Name
	}
	return ""
}

// callsOf returns the names of the called functions, between spaces.
func callsOf(body ast.Node) string {
	calls := " "
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			calls += calledName(call) + " "
		}
		return true
	})
	return calls
}

// duration evaluates an expression of constants of package time, numbers, and the folder's own
// constants. Others are not checked.
func (s *search) duration(x ast.Expr, depth int) (time.Duration, bool) {
	units := map[string]time.Duration{
		"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second,
		"Minute": time.Minute, "Hour": time.Hour,
	}
	switch x := x.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(strings.ReplaceAll(x.Value, "_", ""), 0, 64)
		return time.Duration(n), err == nil
	case *ast.Ident:
		value, ok := s.constants[x.Name]
		if !ok || depth > 5 {
			return 0, false
		}
		return s.duration(value, depth+1)
	case *ast.SelectorExpr:
		d, ok := units[x.Sel.Name]
		return d, ok
	case *ast.ParenExpr:
		return s.duration(x.X, depth)
	case *ast.BinaryExpr:
		a, ok := s.duration(x.X, depth)
		b, ok2 := s.duration(x.Y, depth)
		switch {
		case !ok || !ok2:
		case x.Op == token.MUL:
			return a * b, true
		case x.Op == token.ADD:
			return a + b, true
		case x.Op == token.SUB:
			return a - b, true
		case x.Op == token.QUO && b != 0:
			return a / b, true
		}
	}
	return 0, false
}
