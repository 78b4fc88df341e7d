package validation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

// call is a call of a validation function. The function's first arguments are ctx, op, fldPath, obj
// and oldObj.
type call struct {
	fn       string // as Go source, perhaps with type arguments
	args     []string
	short    bool // errors end the validation of the value
	silent   bool // errors are not reported; only with short
	cohort   string
	level    string // Alpha, Beta or ""
	comments []string
	// ownLevel means that the calls in the arguments have their own levels.
	ownLevel bool
	// extensible means that the function is of another module, which may add variadic parameters in
	// later releases. Calls of it still compile then, but its type is another one.
	extensible bool
	// ifSet means that the function needs a value: it is not called if obj is nil.
	ifSet bool
}

// rules are the calls that markers require.
type rules struct {
	calls  []call
	parent []call // for the struct or list around the value
	// If set, the rules of the type of the value, of the keys or of the elements do not apply.
	opaque, opaqueKeys, opaqueVals bool
}

func (r *rules) add(o rules) {
	r.calls, r.parent = append(r.calls, o.calls...), append(r.parent, o.parent...)
	r.opaque, r.opaqueKeys, r.opaqueVals = r.opaque || o.opaque, r.opaqueKeys || o.opaqueKeys, r.opaqueVals ||
		o.opaqueVals
}

// one returns the rules with one call.
func one(c call) rules { return rules{calls: []call{c}} }

// lib returns a call of a function of the package validate.
func (g *generator) lib(fn string, args ...string) call {
	return call{fn: g.Expanded("$validate."+fn, nil), args: args, extensible: true}
}

// each returns the calls changed by f.
func each(calls []call, f func(call) call) []call {
	out := make([]call, len(calls))
	for i, c := range calls {
		out[i] = f(c)
	}
	return out
}

// around returns a call whose last argument is a function that calls c. It has the conditions of c.
func around(outer, c call) call {
	outer.short, outer.silent, outer.comments = c.short, c.silent, c.comments
	return outer
}

// notRules are the markers that are not rules or that the first pass reads.
var notRules = []string{"k8s:listMapKey", "k8s:customUnique", "k8s:unionDiscriminator", "k8s:modeDiscriminator",
	"k8s:enumExclude",
	"k8s:validation-gen", "k8s:validation-gen-nolint", "k8s:isSubresource", "k8s:supportsSubresource"}

// rulesOf returns the rules of the markers at a place. It records errors and continues.
func (g *generator) rulesOf(p place, ms marker.Markers) rules {
	sorted := slices.Clone(ms)
	slices.SortStableFunc(sorted, func(a, b *marker.Marker) int { return strings.Compare(a.Name, b.Name) })
	var all rules
	for _, m := range sorted {
		r, err := g.rule(p, m)
		if err != nil {
			g.fail(m, err)
			continue
		}
		all.add(r)
	}
	return all
}

// allowed are the places of markers that do not apply everywhere.
var allowed = map[string][]scope{
	"k8s:required": {onField}, "k8s:optional": {onField}, "k8s:forbidden": {onField},
	"k8s:dependentRequired": {onField}, "k8s:dependentForbidden": {onField}, "k8s:ifMode": {onField},
	"k8s:enum": {onType}, "k8s:customValidation": {onType, onField}, "k8s:monotonic": {onType, onField},
	"k8s:unionMember": {onField, onElement}, "k8s:zeroOrOneOfMember": {onField, onElement},
	"k8s:update": {onField, onElement, onValue}, "k8s:immutable": {onType, onField, onElement, onValue},
	"k8s:maxProperties": {onType, onField}, "k8s:minProperties": {onType, onField},
	"k8s:maxItems": {onType, onField, onElement, onValue}, "k8s:minItems": {onType, onField, onElement, onValue},
}

// rule returns the rules of one marker. Markers of other generators have none.
func (g *generator) rule(p place, m *marker.Marker) (rules, error) {
	if !strings.HasPrefix(m.Name, "k8s:") || slices.Contains(notRules, m.Name) {
		return rules{}, nil
	}
	if scopes, limited := allowed[m.Name]; limited && !slices.Contains(scopes, p.scope) {
		return rules{}, fmt.Errorf("does not apply to %s", p.scope)
	}
	switch m.Name {
	case "k8s:minimum", "k8s:maximum", "k8s:maxLength", "k8s:minLength", "k8s:maxBytes", "k8s:maxItems", "k8s:minItems",
		"k8s:maxProperties", "k8s:minProperties":
		return g.limit(p, m)
	case "k8s:format":
		return g.format(p, m)
	case "k8s:neq":
		return g.neq(p, m)
	case "k8s:monotonic":
		if size, _ := bits(p.typ); size == 0 {
			return rules{}, fmt.Errorf("applies to integers, not to %s", p.typ)
		}
		return one(g.lib("Monotonic")), nil
	case "k8s:immutable":
		c := g.lib("Immutable")
		c.short = true
		return one(c), nil
	case "k8s:required", "k8s:optional", "k8s:forbidden":
		return g.presence(p, m)
	case "k8s:dependentRequired", "k8s:dependentForbidden":
		return g.dependent(p, m)
	case "k8s:listType", "k8s:unique":
		return g.uniqueness(p)
	case "k8s:enum":
		return g.enum(p)
	case "k8s:unionMember", "k8s:zeroOrOneOfMember":
		return g.unionRule(p, m)
	case "k8s:ifMode":
		return g.modeRule(p, m)
	case "k8s:update":
		return g.update(p, m)
	case "k8s:customValidation":
		return g.custom(p)
	case "k8s:opaqueType":
		return rules{opaque: true}, nil
	case "k8s:validateTrue", "k8s:validateFalse", "k8s:validateTrueAlpha", "k8s:validateTrueBeta":
		return g.fixed(m)
	case "k8s:validateError":
		return rules{}, fmt.Errorf("%q", m.Text())
	}
	if payload(m) != nil {
		return g.wrapper(p, m)
	}
	return rules{}, nil
}

var sinceVersion = regexp.MustCompile(`^\d+\.\d+$`)

// wrapper returns the rules of a marker whose value is another marker.
func (g *generator) wrapper(p place, m *marker.Marker) (rules, error) {
	in, err := g.inner(p, m)
	if err != nil {
		return rules{}, err
	}
	r, err := g.rule(in, payload(m))
	if err != nil {
		return rules{}, fmt.Errorf("+%s %w", payload(m).Name, err)
	}
	switch m.Name {
	case "k8s:alpha", "k8s:beta":
		if m.Has("since") && !sinceVersion.MatchString(m.String("since")) {
			return rules{}, fmt.Errorf("needs a version of Kubernetes such as 1.37, not %q", m.String("since"))
		}
		leveled := func(c call) call {
			if !c.ownLevel {
				c.level = in.level
			}
			return c
		}
		r.calls, r.parent = each(r.calls, leveled), each(r.parent, leveled)
		return r, nil
	case "k8s:ifEnabled", "k8s:ifDisabled":
		return g.ifOption(p, m, r), nil
	case "k8s:eachVal":
		return g.eachVal(p, in, r)
	case "k8s:eachKey":
		r.calls = each(r.calls, func(c call) call { return around(g.lib("EachMapKey", g.function(c, in.typ)), c) })
		return rules{calls: r.calls, opaqueKeys: r.opaque}, nil
	case "k8s:subfield":
		return g.subfield(p, in, r), nil
	case "k8s:item":
		return g.item(p, in, r)
	}
	return rules{}, fmt.Errorf("cannot have another marker as its value")
}

// ifOption makes rules depend on an option.
func (g *generator) ifOption(p place, m *marker.Marker, r rules) rules {
	enabled := fmt.Sprint(m.Name == "k8s:ifEnabled")
	when := func(t loader.Type) func(call) call {
		return func(c call) call {
			outer := around(g.lib("IfOption", fmt.Sprintf("%q", m.String("")), enabled, g.function(c, t)), c)
			outer.cohort = c.cohort
			return outer
		}
	}
	r.calls = each(r.calls, when(p.typ))
	if len(r.parent) > 0 {
		r.parent = each(r.parent, when(p.parent))
	}
	return r
}

// subfield applies rules to a field of the struct at p. The field's own markers, such as required
// and optional, also decide whether the rules apply.
func (g *generator) subfield(p, in place, r rules) rules {
	calls := r.calls
	if !g.opaqueAt(p) && !g.inherited[in.path] {
		g.inherited[in.path] = true
		calls = append(calls, g.inherit(in)...)
	}
	get := fmt.Sprintf("func(o %s) %s { return %s }", g.nilForm(p.typ), g.nilForm(in.typ), address("o", in.field))
	name := jsonName(in.field)
	calls = each(calls, func(c call) call {
		outer := around(g.lib("Subfield", fmt.Sprintf("%q", name), get, g.equal(in.typ), g.function(c, in.typ)), c)
		outer.cohort, outer.ifSet = name, isPointer(p.typ)
		return outer
	})
	return rules{calls: append(calls, r.parent...)}
}

// inherit returns the calls of a field's own markers that end its validation. The calls do not
// report their errors, because the type of the struct reports them.
func (g *generator) inherit(p place) (calls []call) {
	var ms marker.Markers
	for _, m := range p.field.Markers {
		last := m
		for payload(last) != nil {
			last = payload(last)
		}
		switch last.Name {
		case "k8s:listType", "k8s:unique", "k8s:unionMember", "k8s:zeroOrOneOfMember", "k8s:dependentRequired",
			"k8s:dependentForbidden":
			continue // these calls belong to the struct, or do not end the validation
		case "k8s:update":
			g.collect(p, m)
		}
		if m.Name != "k8s:ifMode" && m.Name != "k8s:subfield" {
			ms = append(ms, m)
		}
	}
	for _, c := range g.rulesOf(p, ms).calls {
		if c.short {
			c.silent = true
			calls = append(calls, c)
		}
	}
	return calls
}

// opaqueAt reports whether the rules of the type at a place do not apply.
func (g *generator) opaqueAt(p place) bool {
	if p.field != nil && slices.ContainsFunc(p.field.Markers, opaque) {
		return true
	}
	n := named(p.typ)
	return n != nil && slices.ContainsFunc(g.API.Type(n.Decl).Markers, opaque)
}

// opaque reports whether a marker is k8s:opaqueType, perhaps at a level.
func opaque(m *marker.Marker) bool {
	for m.Name == "k8s:alpha" || m.Name == "k8s:beta" {
		m = payload(m)
	}
	return m.Name == "k8s:opaqueType"
}

// equal returns the function that compares two values of a type.
func (g *generator) equal(t loader.Type) string {
	if isComparable(valueType(t)) {
		return g.Expanded("$validate.DirectEqual", nil)
	}
	return g.Expanded("$validate.SemanticDeepEqual", nil)
}

// expression returns a call as Go source.
func (g *generator) expression(c call) string {
	s := c.fn + "(ctx, op, fldPath, obj, oldObj"
	for _, a := range c.args {
		s += ", " + a
	}
	s += ")"
	if c.level != "" {
		s += ".Mark" + c.level + "()"
	}
	if c.ifSet {
		return g.Expanded("func() $field.ErrorList {\nif obj == nil {\nreturn nil\n}\nreturn ", nil) + s + "\n}()"
	}
	return s
}

// function returns a call as a function of a value: the called function itself if it is a generated
// one that needs no other arguments.
func (g *generator) function(c call, t loader.Type) string {
	if len(c.args) == 0 && c.level == "" && !c.extensible {
		return c.fn
	}
	return g.signature(g.nilForm(t), "") + " { return " + g.expression(c) + " }"
}

// signature returns the head of a function literal.
func (g *generator) signature(value, result string) string {
	list := g.Expanded("$field.ErrorList", nil)
	if result != "" {
		list = "(" + result + " " + list + ")"
	}
	return g.Expanded("func(ctx $context.Context, op $operation.Operation, fldPath *$field.Path, obj, oldObj ", nil) +
		value + ") " + list
}

// fixed returns a rule that always or never fails.
func (g *generator) fixed(m *marker.Marker) (rules, error) {
	c := g.lib("FixedResult", fmt.Sprint(m.Name != "k8s:validateFalse"), fmt.Sprintf("%q", m.Text()))
	if t := m.String("typeArg"); t != "" {
		t = strings.TrimPrefix(t, "*")
		if dot := strings.LastIndexByte(t, '.'); dot > 0 {
			t = g.Qualified(t[:dot], t[strings.LastIndexByte(t[:dot], '/')+1:dot], t[dot+1:])
		}
		c.fn += "[*" + t + "]"
	}
	c.cohort = m.String("cohort")
	for flag := range strings.SplitSeq(m.String("flags"), ",") {
		switch strings.TrimSpace(flag) {
		case "":
		case "ShortCircuit":
			c.short = true
		case "NonError":
			c.silent = true
		default:
			return rules{}, fmt.Errorf("has the unknown flag %q", flag)
		}
	}
	return one(c), nil
}
