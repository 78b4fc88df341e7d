package validation

import (
	"fmt"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
)

// pointerSlice returns "Ptr" or "Val", by the elements of a list.
func pointerSlice(t loader.Type) string {
	if _, ok := element(t).(*loader.Pointer); ok {
		return "Ptr"
	}
	return "Val"
}

// sameKeys returns the function that reports whether two elements of a map list have equal keys.
func (rc *ruleCompiler) sameKeys(l *list, elem loader.Type) string {
	var tests []string
	for _, k := range l.keys {
		a, b := "a."+k.Name, "b."+k.Name
		if isPointer(k.Type()) {
			tests = append(tests, fmt.Sprintf("((%s == nil && %s == nil) || (%s != nil && %s != nil && *%s == *%s))", a,
				b, a, b, a, b))
		} else {
			tests = append(tests, a+" == "+b)
		}
	}
	return fmt.Sprintf("func(a, b *%s) bool { return %s }", rc.code.Type(named(elem)), strings.Join(tests, " && "))
}

// identity returns the function that finds the old element of a new one, and whether it compares
// the elements completely. It returns nil for lists whose elements have no identity.
func (rc *ruleCompiler) identity(l *list, elem loader.Type) (match string, complete bool) {
	switch {
	case l == nil || l.check() != nil && l.semantic() == "map" && len(l.keys) == 0:
		return "nil", true
	case l.semantic() == "map":
		return rc.sameKeys(l, elem), false
	case l.semantic() == "set":
		return rc.code.equal(elem), true
	}
	return "nil", true
}

// uniqueness returns the uniqueness check of a set or map list when it is first called for the
// list.
func (rc *ruleCompiler) uniqueness(p place) (rules, error) {
	if rc.checked[p.path] {
		return rules{}, nil
	}
	rc.checked[p.path] = true
	l := rc.meta.lists[p.path]
	if l == nil {
		return rules{}, nil
	}
	if err := l.check(); err != nil {
		return rules{}, err
	}
	if n, ok := p.typ.(*loader.Named); ok && p.scope == onField {
		if rc.meta.learn(n); rc.meta.lists[n.String()] != nil {
			return rules{}, fmt.Errorf("is declared on the field and on its type %s", n.Decl.Name)
		}
	}
	if l.custom || l.semantic() == "atomic" {
		return rules{}, nil
	}
	match, _ := rc.identity(l, element(p.typ))
	return one(rc.code.lib(pointerSlice(p.typ)+"SliceUnique", match)), nil
}

// eachVal applies rules to the elements of a list or map.
func (rc *ruleCompiler) eachVal(p, in place, r rules) (rules, error) {
	if len(r.parent) > 0 {
		return rules{}, fmt.Errorf("cannot apply to all elements; use +k8s:item")
	}
	return rules{calls: each(r.calls, func(c call) call { return rc.forEach(p, c) }), opaqueVals: r.opaque}, nil
}

// forEach returns the call that makes a call for each element of a list or map.
func (rc *ruleCompiler) forEach(p place, c call) call {
	elem := element(p.typ)
	run := rc.code.function(c, elem)
	if isMap(p.typ) {
		return around(rc.code.lib("EachMapVal", rc.code.equal(elem), run), c)
	}
	match, complete := rc.identity(rc.meta.listOf(p), elem)
	equal := "nil"
	if !complete {
		equal = rc.code.equal(elem)
	}
	fn := "EachValSliceVal"
	if pointerSlice(p.typ) == "Ptr" {
		fn = "EachPtrSliceVal"
	}
	return around(rc.code.lib(fn, match, equal, run), c)
}

// item applies rules to the element of a map list with the keys of in.
func (rc *ruleCompiler) item(p, in place, r rules) (rules, error) {
	l := rc.meta.listOf(p)
	if l == nil || l.semantic() != "map" {
		return rules{}, fmt.Errorf("needs a list with +k8s:listType=map or +k8s:unique=map, and +k8s:listMapKey")
	}
	if err := l.check(); err != nil {
		return rules{}, err
	}
	var terms []term
	for _, name := range l.keyNames {
		i := slices.IndexFunc(in.selector, func(t term) bool { return t.name == name })
		if i < 0 {
			return rules{}, fmt.Errorf("needs the key %s", name)
		}
		terms = append(terms, in.selector[i])
	}
	if len(terms) != len(in.selector) {
		return rules{}, fmt.Errorf("has %d keys, and the list has %d", len(in.selector), len(terms))
	}
	match := fmt.Sprintf("func(item *%s) bool { return %s }", rc.code.Type(in.typ), matches("item", terms))
	calls := each(r.calls, func(c call) call {
		find := rc.code.lib(pointerSlice(p.typ)+"SliceItem", match, rc.code.equal(in.typ), rc.code.function(c, in.typ))
		outer := around(find, c)
		outer.cohort = strings.TrimPrefix(in.path, p.path)
		return outer
	})
	return rules{calls: append(calls, r.parent...)}, nil
}

// matches returns the condition that an element has keys.
func matches(element string, terms []term) string {
	var tests []string
	for _, t := range terms {
		field := element + "." + t.field.Name
		if isPointer(t.field.Type()) {
			tests = append(tests, fmt.Sprintf("%s != nil && *%s == %s", field, field, t.value))
		} else {
			tests = append(tests, field+" == "+t.value)
		}
	}
	return strings.Join(tests, " && ")
}
