// Package goedit edits Go source. It finds positions in the syntax tree and changes the text only
// there, so it keeps comments and layout.
//
//	src, err = goedit.AddArgument(src, goedit.Call{Package: "kelson.dev/operator", Name: "Main"}, "controller.WelcomeController()")
//	src, err = goedit.AddImport(src, "", "example.com/welcome/internal/controller")
//
// Functions are idempotent. A Remove function restores the bytes from before its Add function.
// Lines of a source end with LF.
package goedit

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

var (
	// ErrNoCall means that the source does not contain the call.
	ErrNoCall = errors.New("no such call")
	// ErrNameTaken means that the source imports another package with the same name.
	ErrNameTaken = errors.New("the name belongs to another import")
)

// Call identifies a call of a package's function or, without a Package, of any method with the
// name.
type Call struct{ Package, Name string }

func (c Call) String() string {
	if c.Package == "" {
		return c.Name
	}
	return path.Base(c.Package) + "." + c.Name
}

// source is a parsed file.
type source struct {
	text []byte
	fset *token.FileSet
	file *ast.File
}

func parse(src []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{src, fset, file}, nil
}

func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }
func (s *source) line(p token.Pos) int   { return s.fset.Position(p).Line }

// textOf returns the text of a node without white space, for comparison.
func (s *source) textOf(n ast.Node) string {
	return squeeze(string(s.text[s.offset(n.Pos()):s.offset(n.End())]))
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// replace returns the formatted text with the part between two offsets replaced.
func (s *source) replace(from, to int, with string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(s.text[:from])
	b.WriteString(with)
	b.Write(s.text[to:])
	return format.Source(b.Bytes())
}

// call returns the call, or nil.
func (s *source) call(c Call) *ast.CallExpr {
	name := ""
	if c.Package != "" {
		spec := s.imported(c.Package)
		if spec == nil {
			return nil
		}
		name = nameOf(spec)
	}
	var found *ast.CallExpr
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || found != nil {
			return found == nil
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != c.Name {
			return true
		}
		if x, isIdent := sel.X.(*ast.Ident); name == "" || isIdent && x.Name == name {
			found = call
		}
		return found == nil
	})
	return found
}

// HasCall reports whether the source contains the call.
func HasCall(src []byte, c Call) bool {
	s, err := parse(src)
	return err == nil && s.call(c) != nil
}

// columns is the maximum length of a line after an addition; linters accept 120.
const columns = 118

// AddArgument appends an argument to a call.
func AddArgument(src []byte, c Call, expr string) ([]byte, error) {
	s, err := parse(src)
	if err != nil {
		return nil, err
	}
	call := s.call(c)
	if call == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoCall, c)
	}
	if call.Ellipsis.IsValid() {
		return nil, fmt.Errorf("the arguments of %s are a slice that is expanded with ...", c)
	}
	for _, arg := range call.Args {
		if s.textOf(arg) == squeeze(expr) {
			return src, nil
		}
	}
	end := s.offset(call.Rparen)
	if len(call.Args) == 0 {
		return s.replace(end, end, expr)
	}
	last := call.Args[len(call.Args)-1]
	if s.line(last.End()) == s.line(call.Rparen) {
		comma, at := ", ", s.offset(last.End())
		if from, to := s.lines(at, at); to-from+len(comma)+len(expr) > columns {
			comma = ",\n"
		}
		return s.replace(at, at, comma+expr)
	}
	// on a line of its own after the last argument, which gets a comma
	return s.replace(end, end, expr+",\n")
}

// RemoveArgument removes an argument from a call, if the call has it.
func RemoveArgument(src []byte, c Call, expr string) ([]byte, error) {
	s, err := parse(src)
	if err != nil {
		return nil, err
	}
	call := s.call(c)
	if call == nil {
		return src, nil
	}
	for i, arg := range call.Args {
		if s.textOf(arg) != squeeze(expr) {
			continue
		}
		from, to := s.offset(arg.Pos()), s.offset(arg.End())
		switch {
		case s.line(call.Lparen) != s.line(arg.Pos()) && s.line(arg.End()) != s.line(call.Rparen):
			from, to = s.lines(from, to)
		case i > 0:
			from = s.offset(call.Args[i-1].End())
		case len(call.Args) > 1:
			to = s.offset(call.Args[1].Pos())
		}
		return s.replace(from, to, "")
	}
	return src, nil
}

// Arguments returns the arguments of a call, without white space.
func Arguments(src []byte, c Call) ([]string, error) {
	s, err := parse(src)
	if err != nil {
		return nil, err
	}
	var all []string
	if call := s.call(c); call != nil {
		for _, arg := range call.Args {
			all = append(all, s.textOf(arg))
		}
	}
	return all, nil
}

// lines extends a range of the text to whole lines.
func (s *source) lines(from, to int) (int, int) {
	from = bytes.LastIndexByte(s.text[:from], '\n') + 1
	if end := bytes.IndexByte(s.text[to:], '\n'); end >= 0 {
		return from, to + end + 1
	}
	return from, len(s.text)
}

// AddMarker adds a marker such as "+kubebuilder:storageversion" to the doc comment of a type.
func AddMarker(src []byte, typeName, marker string) ([]byte, error) {
	s, err := parse(src)
	if err != nil {
		return nil, err
	}
	decl := s.typeDecl(typeName)
	if decl == nil {
		return nil, fmt.Errorf("no type %s", typeName)
	}
	if s.marker(decl, marker) != nil {
		return src, nil
	}
	at := s.offset(decl.TokPos)
	return s.replace(at, at, "// "+marker+"\n")
}

// RemoveMarker removes a marker from the doc comment of a type.
func RemoveMarker(src []byte, typeName, marker string) ([]byte, error) {
	s, err := parse(src)
	if err != nil {
		return nil, err
	}
	if decl := s.typeDecl(typeName); decl != nil {
		if c := s.marker(decl, marker); c != nil {
			from, to := s.lines(s.offset(c.Pos()), s.offset(c.End()))
			return s.replace(from, to, "")
		}
	}
	return src, nil
}

// HasMarker reports whether the doc comment of a type has a marker.
func HasMarker(src []byte, typeName, marker string) bool {
	s, err := parse(src)
	if err != nil {
		return false
	}
	decl := s.typeDecl(typeName)
	return decl != nil && s.marker(decl, marker) != nil
}

// PackageName returns the name in the package clause, or "" if the source is invalid.
func PackageName(src []byte) string {
	s, err := parse(src)
	if err != nil {
		return ""
	}
	return s.file.Name.Name
}

// HasType reports whether the source declares a type.
func HasType(src []byte, typeName string) bool {
	s, err := parse(src)
	return err == nil && s.typeDecl(typeName) != nil
}

func (s *source) typeDecl(name string) *ast.GenDecl {
	for _, d := range s.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE || len(g.Specs) != 1 {
			continue
		}
		if spec, ok := g.Specs[0].(*ast.TypeSpec); ok && spec.Name.Name == name {
			return g
		}
	}
	return nil
}

func (s *source) marker(decl *ast.GenDecl, marker string) *ast.Comment {
	if decl.Doc == nil {
		return nil
	}
	for _, c := range decl.Doc.List {
		if strings.TrimSpace(strings.TrimPrefix(c.Text, "//")) == marker {
			return c
		}
	}
	return nil
}
