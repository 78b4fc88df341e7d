package source

import (
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"strings"

	"kelson.dev/toolchain/loader"
)

// structType returns the source text of an unnamed struct, with its tags. It writes the types of
// the fields as those of this file, because the struct may be declared in another package, whose
// files may import packages by other names. The error has the position of the field.
func (f *File) structType(t *loader.Struct) (string, error) {
	fields := make([]string, len(t.Fields))
	for i, field := range t.Fields {
		typ, err := f.Spell(field.Type())
		if err == nil && field.Embedded && embeddedAs(field.Type()) != field.Name {
			err = fmt.Errorf("an unnamed struct that embeds the alias %s cannot be written in generated code; give the struct a name", field.Name)
		}
		if at := (*loader.Error)(nil); err != nil && !errors.As(err, &at) {
			err = loader.Errorf(field.Pos(), "%s: %v", field.Name, err)
		}
		if err != nil {
			return "any", err
		}
		if fields[i] = typ; !field.Embedded {
			fields[i] = field.Name + " " + typ
		}
		if tag := field.Syntax.Tag; tag != nil {
			fields[i] += " " + tag.Value
		}
	}
	return "struct{" + strings.Join(fields, "; ") + "}", nil
}

// embeddedAs returns the name that a struct's field has if it embeds the type.
func embeddedAs(t loader.Type) string {
	switch t := loader.Deref(t).(type) {
	case *loader.Named:
		return t.Decl.Name
	case *loader.Basic:
		return t.Name
	}
	return ""
}

// interfaceType returns the source text of an unnamed interface. Its syntax is copied, so it must
// not name types that are declared in a package.
func interfaceType(t *loader.Interface) (string, error) {
	if t.Syntax == nil {
		return "any", nil
	}
	var declared error
	var check func(ast.Node) bool
	check = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // the names are those of methods and parameters
			ast.Inspect(n.Type, check)
			return false
		case *ast.SelectorExpr:
			declared = fmt.Errorf("an unnamed interface with the type %s cannot be written in generated code; give the interface a name", types.ExprString(n))
			return false
		case *ast.Ident:
			if types.Universe.Lookup(n.Name) == nil {
				declared = fmt.Errorf("an unnamed interface with the type %s cannot be written in generated code; give the interface a name", n.Name)
			}
		}
		return true
	}
	ast.Inspect(t.Syntax, check)
	return types.ExprString(t.Syntax), declared
}
