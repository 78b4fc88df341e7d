package goedit

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// imported returns the import of a package under a name, or nil.
func (s *source) imported(importPath string) *ast.ImportSpec {
	for _, spec := range s.file.Imports {
		if pathOf(spec) == importPath && (spec.Name == nil || spec.Name.Name != "_" && spec.Name.Name != ".") {
			return spec
		}
	}
	return nil
}

func pathOf(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return p
}

// nameOf returns the name of an import. Without one, it is the last element of the path: by
// convention that is the name in the package clause.
func nameOf(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(pathOf(spec))
}

// ImportName returns the name by which the source refers to a package, or "" if the source does not
// import it.
func ImportName(src []byte, importPath string) string {
	s, err := parse(src)
	if err != nil {
		return ""
	}
	if spec := s.imported(importPath); spec != nil {
		return nameOf(spec)
	}
	return ""
}

// Import is AddImport for a name that may be taken. It returns the name by which the source refers
// to the package: that of an existing import, or the given name, or the given name with a number if
// the source uses that name for something else.
func Import(src []byte, name, importPath string) (changed []byte, used string, err error) {
	s, err := parse(src)
	if err != nil {
		return nil, "", err
	}
	if spec := s.imported(importPath); spec != nil {
		return src, nameOf(spec), nil
	}
	used = name
	if name == "" {
		used = path.Base(importPath)
	}
	taken := s.names()
	for n, want := 2, used; taken[used]; n++ {
		used = numbered(want, n)
		name = used
	}
	changed, err = AddImport(src, name, importPath)
	return changed, used, err
}

var versionAtEnd = regexp.MustCompile(`v\d+((alpha|beta)\d+)?$`)

// numbered adds a number to the name of an import. An API version stays at the end: shopv1 becomes
// shop2v1.
func numbered(name string, n int) string {
	stem := versionAtEnd.ReplaceAllString(name, "")
	version := name[len(stem):]
	if stem == "" {
		stem = "api"
	}
	return stem + strconv.Itoa(n) + version
}

// names returns the names that a new import cannot have: those of other imports, and those that the
// source declares anywhere, because a variable may hide a package.
func (s *source) names() map[string]bool {
	all := map[string]bool{}
	for _, spec := range s.file.Imports {
		name := nameOf(spec)
		all[name] = true
		if spec.Name == nil && versionAtEnd.FindString(name) == name {
			// the path may end with a module's major version
			all[path.Base(path.Dir(pathOf(spec)))] = true
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			_, isIdent := n.X.(*ast.Ident)
			return !isIdent // a use, not a declaration
		case *ast.Ident:
			if n != s.file.Name {
				all[n.Name] = true
			}
		}
		return true
	})
	return all
}

// AddImport adds an import, with a name unless it is empty. It adds it to the block whose imports
// share the longest path prefix, or to a new block at the end. It fails with ErrNameTaken if
// another import has the name.
func AddImport(src []byte, name, importPath string) ([]byte, error) {
	s, err := parse(src)
	if err != nil {
		return nil, err
	}
	if s.imported(importPath) != nil {
		return src, nil
	}
	line := strings.TrimSpace(name + " " + strconv.Quote(importPath))
	own := name
	if own == "" {
		own = path.Base(importPath)
	}
	var best *ast.ImportSpec
	first, _, _ := strings.Cut(importPath, "/")
	for _, spec := range s.file.Imports {
		p := pathOf(spec)
		if nameOf(spec) == own && own != "_" && own != "." {
			return nil, fmt.Errorf("import %s: %w: %s", line, ErrNameTaken, p)
		}
		if p == first || strings.HasPrefix(p, first+"/") {
			best = spec
		}
	}
	var decl *ast.GenDecl
	for _, d := range s.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			decl = g
		}
	}
	switch {
	case decl == nil:
		at := s.offset(s.file.Name.End())
		return s.replace(at, at, "\n\nimport "+line+"\n")
	case !decl.Lparen.IsValid():
		from, to := s.offset(decl.Pos()), s.offset(decl.End())
		spec, gap := string(s.text[from+len("import"):to]), "\n\n"
		if best != nil {
			gap = "\n"
		}
		return s.replace(from, to, "import (\n"+spec+gap+line+"\n)")
	case best != nil:
		_, at := s.lines(s.offset(best.Pos()), s.offset(best.End()))
		return s.replace(at, at, line+"\n")
	default:
		at := s.offset(decl.Rparen)
		return s.replace(at, at, "\n"+line+"\n")
	}
}

// RemoveImport removes an import that nothing uses.
func RemoveImport(src []byte, importPath string) ([]byte, error) {
	s, err := parse(src)
	if err != nil {
		return nil, err
	}
	spec := s.imported(importPath)
	if spec == nil {
		return src, nil
	}
	if s.uses(nameOf(spec)) {
		return src, nil
	}
	from, to := s.lines(s.offset(spec.Pos()), s.offset(spec.End()))
	if from > 0 && blank(s.text, from-1) && to < len(s.text) && blankOrParen(s.text[to:]) {
		// if the import is the block's only line, also remove the gap before the block
		from = bytes.LastIndexByte(s.text[:from-1], '\n') + 1
	}
	return s.replace(from, to, "")
}

// Uses reports whether the source uses one of some names of a package, or any without names.
func Uses(src []byte, importPath string, names ...string) bool {
	s, err := parse(src)
	if err != nil {
		return false
	}
	spec := s.imported(importPath)
	return spec != nil && s.uses(nameOf(spec), names...)
}

// uses reports whether the source selects one of some names of a package, or any without names.
func (s *source) uses(pkg string, names ...string) bool {
	found := false
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && (len(names) == 0 || slices.Contains(names, sel.Sel.Name)) {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg {
				found = true
			}
		}
		return !found
	})
	return found
}

// blank reports whether the line that ends with the newline at end is empty.
func blank(text []byte, end int) bool {
	start := bytes.LastIndexByte(text[:end], '\n') + 1
	return len(bytes.TrimSpace(text[start:end])) == 0
}

func blankOrParen(rest []byte) bool {
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == ')'
}
