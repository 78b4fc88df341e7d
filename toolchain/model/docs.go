package model

import (
	"go/ast"
	"strings"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

// isLiteral reports whether the declaration is a struct type literal.
func isLiteral(d *loader.Decl) bool {
	_, ok := d.Spec.Type.(*ast.StructType)
	return ok
}

// structOf returns the struct that a declaration declares, perhaps as another named type, or nil.
// It does not resolve other types, which might load packages.
func structOf(d *loader.Decl) *loader.Struct {
	switch d.Spec.Type.(type) {
	case *ast.StructType, *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr, *ast.IndexListExpr:
		st, _ := d.Type().Underlying().(*loader.Struct)
		return st
	}
	return nil
}

// typeDoc returns the documentation of a type: its own comment, or the comment of its declaration
// if it declares only this type.
func typeDoc(d *loader.Decl) string {
	if d.Spec.Doc == nil && !d.Gen.Lparen.IsValid() {
		return doc(d.Gen.Doc)
	}
	return doc(d.Spec.Doc)
}

// doc returns a doc comment in the form that Kubernetes uses in schemas: without markers and lines
// that begin with TODO, and only up to a line that begins with ---. It does not change fenced code.
func doc(g *ast.CommentGroup) string {
	if g == nil {
		return ""
	}
	var kept ast.CommentGroup
	block := false
	for _, c := range g.List {
		if marker.IsMarker(c.Text) {
			continue
		}
		block = block || strings.HasPrefix(c.Text, "/*")
		kept.List = append(kept.List, c)
	}
	var out []string
	fenced := false
	for line := range strings.SplitSeq(strings.TrimSuffix(kept.Text(), "\n"), "\n") {
		if block {
			line = strings.TrimSpace(line)
		}
		if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			fenced = !fenced
		}
		if !fenced && strings.HasPrefix(line, "TODO") {
			continue
		}
		if !fenced && strings.HasPrefix(line, "---") {
			break
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
