package validation

import (
	"go/ast"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// node is a declared type with its rules.
type node struct {
	typ    *loader.Named
	rules  rules
	parts  []part // of a list or map
	fields []*field
}

// field is a field with its rules.
type field struct {
	*model.Field
	rules rules
	typ   *loader.Named // whose function is called for the value, or nil
	parts []part
}

// part is a call of the function for the type of elements or keys.
type part struct {
	typ  *loader.Named
	call call
}

// node returns the node of a type of this project.
func (g *generator) node(t *loader.Named) *node {
	if n := g.nodes[t.String()]; n != nil {
		return n
	}
	n := &node{typ: t}
	g.nodes[t.String()] = n
	g.meta.learn(t)
	n.rules = g.rules.rulesOf(typePlace(t), g.cfg.API.Type(t.Decl).Markers)
	n.rules.parent = nil
	if st := structOf(t); st == nil {
		n.parts = g.partsOf(typePlace(t), n.rules)
		return n
	}
	for _, mf := range g.meta.fields(t) {
		if !ast.IsExported(mf.Name) || mf.Tag.Get("json") == "-" {
			continue
		}
		p := fieldPlace(t, mf)
		f := &field{Field: mf, rules: g.rules.rulesOf(p, mf.Markers)}
		n.rules.calls = append(n.rules.calls, f.rules.parent...)
		if used := named(mf.Type()); used != nil && !f.rules.opaque && !isPointer(used) {
			f.typ = g.callable(p, used)
		}
		if named(mf.Type()) == nil {
			f.parts = g.partsOf(p, f.rules)
		}
		g.checkShape(p, len(f.rules.calls) > 0)
		if !f.rules.opaque {
			g.checkUnnamed(t.Decl.Pkg, mf.Type())
		}
		n.fields = append(n.fields, f)
	}
	return n
}

// partsOf returns the calls of the functions of the types of keys and elements.
func (g *generator) partsOf(p place, r rules) (parts []part) {
	add := func(t loader.Type, wrap func(call) call) {
		if n := named(t); n != nil {
			if n = g.callable(p, n); n != nil {
				parts = append(parts, part{n, wrap(call{fn: g.code.functionName(n.Decl)})})
			}
		}
	}
	if m, ok := native(p.typ).(*loader.Map); ok && !r.opaqueKeys {
		add(m.Key, func(c call) call { return g.code.lib("EachMapKey", c.fn) })
	}
	if elem := element(p.typ); elem != nil && !r.opaqueVals {
		add(elem, func(c call) call { return g.rules.forEach(p, c) })
	}
	return parts
}

// checkShape reports rules of types for which the package validate has no functions.
func (g *generator) checkShape(p place, ruled bool) {
	if !ruled {
		return
	}
	t := p.typ
	what := ""
	switch elem := element(t); {
	case elem == nil && isPointer(t):
		if ptr := native(t).(*loader.Pointer); isSlice(ptr.Elem) || isMap(ptr.Elem) || isPointer(ptr.Elem) {
			what = "pointers to pointers, lists and maps"
		}
	case isSlice(t) && (isMap(elem) || isSlice(elem) && basic(element(elem)) != "byte" &&
		basic(element(elem)) != "uint8"):
		what = "lists of lists and maps"
	case isMap(t) && (isMap(elem) || isPointer(elem) || isSlice(elem)):
		what = "maps of lists, maps and pointers"
	}
	if _, array := native(t).(*loader.Array); array {
		what = "arrays"
	}
	if what != "" {
		g.problems.add(loader.Errorf(p.field.Pos(), "%s: rules of %s are not supported", p.field.Name, what))
	}
}

// checkUnnamed reports rules in the unnamed structs of a field's type, which have no functions.
func (g *generator) checkUnnamed(pkg *loader.Package, t loader.Type) {
	switch t := t.(type) {
	case *loader.Pointer:
		g.checkUnnamed(pkg, t.Elem)
	case *loader.Slice:
		g.checkUnnamed(pkg, t.Elem)
	case *loader.Array:
		g.checkUnnamed(pkg, t.Elem)
	case *loader.Map:
		g.checkUnnamed(pkg, t.Elem)
	case *loader.Struct:
		for _, f := range g.cfg.API.Fields(pkg, t) {
			if hasRules(f.Markers) || !f.Markers.Has("k8s:opaqueType") && g.ruled(f.Type(), map[string]bool{}) {
				g.problems.add(loader.Errorf(f.Pos(),
					"%s: +k8s: rules in unnamed structs are not supported; give the struct a name, or +k8s:opaqueType ignores them", f.Name))
			} else {
				g.checkUnnamed(pkg, f.Type())
			}
		}
	}
}

// callable returns the type if it has a function, and nil if it has no rules. It is an error if a
// type has rules that cannot be called.
func (g *generator) callable(p place, n *loader.Named) *loader.Named {
	if len(n.Args) == 0 && !n.Decl.Alias {
		if g.cfg.Generated(n.Decl.Pkg) || g.code.declared(n.Decl) != "" {
			return n
		}
	}
	if g.ruled(n, map[string]bool{}) && p.field != nil {
		reason := "in its package no functions are generated"
		if len(n.Args) > 0 {
			reason = "functions of generic types are not supported"
		}
		g.problems.add(loader.Errorf(p.field.Pos(),
			"%s: %s has +k8s: rules, but %s; +k8s:opaqueType ignores them", p.field.Name, n, reason))
	}
	return nil
}

// ruled reports whether a type without a function has rules, in itself or in a type that it uses.
func (g *generator) ruled(t loader.Type, seen map[string]bool) bool {
	switch t := t.(type) {
	case *loader.Pointer:
		return g.ruled(t.Elem, seen)
	case *loader.Slice:
		return g.ruled(t.Elem, seen)
	case *loader.Map:
		return g.ruled(t.Key, seen) || g.ruled(t.Elem, seen)
	case *loader.Named:
		if seen[t.String()] {
			return false
		}
		seen[t.String()] = true
		if hasRules(g.cfg.API.Type(t.Decl).Markers) {
			return true
		}
		if structOf(t) == nil {
			return g.ruled(t.Underlying(), seen)
		}
		for _, f := range g.meta.fields(t) {
			if hasRules(f.Markers) || !f.Markers.Has("k8s:opaqueType") && g.ruled(f.Type(), seen) {
				return true
			}
		}
	}
	return false
}

// hasRules reports whether markers contain a rule that can fail.
func hasRules(ms marker.Markers) bool {
	return slices.ContainsFunc(ms, func(m *marker.Marker) bool {
		switch m.Name {
		case "k8s:optional", "k8s:opaqueType", "k8s:openapi-gen", "k8s:deepcopy-gen", "k8s:conversion-gen",
			"k8s:defaulter-gen":
			return false
		}
		_, limited := allowed[m.Name]
		return limited || m.Name == "k8s:format" || m.Name == "k8s:neq" || m.Name == "k8s:minimum" ||
			m.Name == "k8s:maximum" ||
			strings.HasPrefix(m.Name, "k8s:max") || strings.HasPrefix(m.Name, "k8s:minLength") ||
			payload(m) != nil && m.Name != "k8s:alpha"
	})
}

// has reports whether a type has rules that its function checks.
func (g *generator) has(t *loader.Named, seen map[string]bool) bool {
	if !g.cfg.Generated(t.Decl.Pkg) {
		return true // the type of a value in another package is listed only if it has a function
	}
	if seen[t.String()] {
		return false
	}
	seen[t.String()] = true
	n := g.node(t)
	if len(n.rules.calls) > 0 {
		return true
	}
	if n.rules.opaque {
		return false
	}
	in := func(parts []part) bool {
		return slices.ContainsFunc(parts, func(p part) bool { return g.has(p.typ, seen) })
	}
	if in(n.parts) {
		return true
	}
	return slices.ContainsFunc(n.fields, func(f *field) bool {
		return len(f.rules.calls) > 0 || in(f.parts) || f.typ != nil && g.has(f.typ, seen)
	})
}
