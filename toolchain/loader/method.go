package loader

import "go/ast"

// FindMethod returns the method with a name that is declared on t, or on the type that t points to,
// or nil. It ignores promoted methods.
func FindMethod(t Type, name string) *Method {
	if p, ok := t.(*Pointer); ok {
		t = p.Elem
	}
	n, ok := t.(*Named)
	if !ok || n.Decl.Alias {
		return nil
	}
	for _, m := range n.Decl.Pkg.Methods(n.Decl.Name) {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Implements reports whether t or *t has a method with a name and the signature func() ([]byte,
// error), such as MarshalJSON and MarshalText. A method that is promoted from an embedded field
// counts if it is the only one at its depth.
func Implements(t Type, name string) bool {
	level := []Type{t}
	seen := map[string]bool{}
	for len(level) > 0 {
		found := 0
		var next []Type
		for _, t := range level {
			if p, ok := t.(*Pointer); ok {
				t = p.Elem
			}
			if n, ok := t.(*Named); ok {
				if seen[n.String()] {
					continue
				}
				seen[n.String()] = true
				if m := FindMethod(n, name); m != nil && marshals(m.Func.Type) {
					found++
					continue
				}
			}
			if st, ok := t.Underlying().(*Struct); ok {
				for _, f := range st.Fields {
					if f.Embedded {
						next = append(next, f.Type())
					}
				}
			}
		}
		if found > 0 {
			return found == 1
		}
		level = next
	}
	return false
}

// marshals reports whether a signature is func() ([]byte, error).
func marshals(fn *ast.FuncType) bool {
	if len(fn.Params.List) != 0 || fn.Results == nil {
		return false
	}
	var results []ast.Expr
	for _, r := range fn.Results.List {
		for range max(1, len(r.Names)) {
			results = append(results, r.Type)
		}
	}
	if len(results) != 2 {
		return false
	}
	data, ok := results[0].(*ast.ArrayType)
	if !ok || data.Len != nil {
		return false
	}
	elem, ok := data.Elt.(*ast.Ident)
	err, ok2 := results[1].(*ast.Ident)
	return ok && ok2 && (elem.Name == "byte" || elem.Name == "uint8") && err.Name == "error"
}
