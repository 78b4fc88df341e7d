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

// ruleCompiler turns the markers of a value into calls of validation functions. It reads what the
// first pass has collected about lists, unions and modes.
type ruleCompiler struct {
	cfg       Config
	meta      *metadata
	code      *writer
	registry  *marker.Registry
	checked   map[string]bool // results of the first pass; each is written once
	inherited map[string]bool // subfields whose own rules, such as required, are written already
	claimed   map[string]bool // hand-written functions that markers call
	problems  *problems
}

// fail records an error of a marker.
func (rc *ruleCompiler) fail(m *marker.Marker, err error) {
	rc.problems.add(loader.Errorf(m.Pos, "+%s %v", m.Name, err))
}

// notRules are the markers that are not rules or that the first pass reads.
var notRules = []string{"k8s:listMapKey", "k8s:customUnique", "k8s:unionDiscriminator", "k8s:modeDiscriminator",
	"k8s:enumExclude",
	"k8s:validation-gen", "k8s:validation-gen-nolint", "k8s:isSubresource", "k8s:supportsSubresource"}

// rulesOf returns the rules of the markers at a place. It records errors and continues.
func (rc *ruleCompiler) rulesOf(p place, ms marker.Markers) rules {
	sorted := slices.Clone(ms)
	slices.SortStableFunc(sorted, func(a, b *marker.Marker) int { return strings.Compare(a.Name, b.Name) })
	var all rules
	for _, m := range sorted {
		r, err := rc.rule(p, m)
		if err != nil {
			rc.fail(m, err)
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
func (rc *ruleCompiler) rule(p place, m *marker.Marker) (rules, error) {
	if !strings.HasPrefix(m.Name, "k8s:") || slices.Contains(notRules, m.Name) {
		return rules{}, nil
	}
	if scopes, limited := allowed[m.Name]; limited && !slices.Contains(scopes, p.scope) {
		return rules{}, fmt.Errorf("does not apply to %s", p.scope)
	}
	switch m.Name {
	case "k8s:minimum", "k8s:maximum", "k8s:maxLength", "k8s:minLength", "k8s:maxBytes", "k8s:maxItems", "k8s:minItems",
		"k8s:maxProperties", "k8s:minProperties":
		return rc.limit(p, m)
	case "k8s:format":
		return rc.format(p, m)
	case "k8s:neq":
		return rc.neq(p, m)
	case "k8s:monotonic":
		if size, _ := bits(p.typ); size == 0 {
			return rules{}, fmt.Errorf("applies to integers, not to %s", p.typ)
		}
		return one(rc.code.lib("Monotonic")), nil
	case "k8s:immutable":
		c := rc.code.lib("Immutable")
		c.short = true
		return one(c), nil
	case "k8s:required", "k8s:optional", "k8s:forbidden":
		return rc.presence(p, m)
	case "k8s:dependentRequired", "k8s:dependentForbidden":
		return rc.dependent(p, m)
	case "k8s:listType", "k8s:unique":
		return rc.uniqueness(p)
	case "k8s:enum":
		return rc.enum(p)
	case "k8s:unionMember", "k8s:zeroOrOneOfMember":
		return rc.unionRule(p, m)
	case "k8s:ifMode":
		return rc.modeRule(p, m)
	case "k8s:update":
		return rc.update(p, m)
	case "k8s:customValidation":
		return rc.custom(p)
	case "k8s:opaqueType":
		return rules{opaque: true}, nil
	case "k8s:validateTrue", "k8s:validateFalse", "k8s:validateTrueAlpha", "k8s:validateTrueBeta":
		return rc.fixed(m)
	case "k8s:validateError":
		return rules{}, fmt.Errorf("%q", m.Text())
	}
	if payload(m) != nil {
		return rc.wrapper(p, m)
	}
	return rules{}, nil
}

var sinceVersion = regexp.MustCompile(`^\d+\.\d+$`)

// wrapper returns the rules of a marker whose value is another marker.
func (rc *ruleCompiler) wrapper(p place, m *marker.Marker) (rules, error) {
	in, err := rc.meta.inner(p, m)
	if err != nil {
		return rules{}, err
	}
	r, err := rc.rule(in, payload(m))
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
		return rc.ifOption(p, m, r), nil
	case "k8s:eachVal":
		return rc.eachVal(p, in, r)
	case "k8s:eachKey":
		r.calls = each(r.calls, func(c call) call {
			return around(rc.code.lib("EachMapKey", rc.code.function(c, in.typ)), c)
		})
		return rules{calls: r.calls, opaqueKeys: r.opaque}, nil
	case "k8s:subfield":
		return rc.subfield(p, in, r), nil
	case "k8s:item":
		return rc.item(p, in, r)
	}
	return rules{}, fmt.Errorf("cannot have another marker as its value")
}

// ifOption makes rules depend on an option.
func (rc *ruleCompiler) ifOption(p place, m *marker.Marker, r rules) rules {
	enabled := fmt.Sprint(m.Name == "k8s:ifEnabled")
	when := func(t loader.Type) func(call) call {
		return func(c call) call {
			outer := around(rc.code.lib("IfOption", fmt.Sprintf("%q", m.String("")), enabled, rc.code.function(c, t)), c)
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
func (rc *ruleCompiler) subfield(p, in place, r rules) rules {
	calls := r.calls
	if !rc.opaqueAt(p) && !rc.inherited[in.path] {
		rc.inherited[in.path] = true
		calls = append(calls, rc.inherit(in)...)
	}
	get := fmt.Sprintf("func(o %s) %s { return %s }", rc.code.nilForm(p.typ), rc.code.nilForm(in.typ),
		address("o", in.field))
	name := jsonName(in.field)
	calls = each(calls, func(c call) call {
		outer := around(rc.code.lib("Subfield", fmt.Sprintf("%q", name), get, rc.code.equal(in.typ),
			rc.code.function(c, in.typ)), c)
		outer.cohort, outer.ifSet = name, isPointer(p.typ)
		return outer
	})
	return rules{calls: append(calls, r.parent...)}
}

// inherit returns the calls of a field's own markers that end its validation. The calls do not
// report their errors, because the type of the struct reports them.
func (rc *ruleCompiler) inherit(p place) (calls []call) {
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
			rc.meta.collect(p, m)
		}
		if m.Name != "k8s:ifMode" && m.Name != "k8s:subfield" {
			ms = append(ms, m)
		}
	}
	for _, c := range rc.rulesOf(p, ms).calls {
		if c.short {
			c.silent = true
			calls = append(calls, c)
		}
	}
	return calls
}

// opaqueAt reports whether the rules of the type at a place do not apply.
func (rc *ruleCompiler) opaqueAt(p place) bool {
	if p.field != nil && slices.ContainsFunc(p.field.Markers, opaque) {
		return true
	}
	n := named(p.typ)
	return n != nil && slices.ContainsFunc(rc.cfg.API.Type(n.Decl).Markers, opaque)
}

// opaque reports whether a marker is k8s:opaqueType, perhaps at a level.
func opaque(m *marker.Marker) bool {
	for m.Name == "k8s:alpha" || m.Name == "k8s:beta" {
		m = payload(m)
	}
	return m.Name == "k8s:opaqueType"
}

// fixed returns a rule that always or never fails.
func (rc *ruleCompiler) fixed(m *marker.Marker) (rules, error) {
	c := rc.code.lib("FixedResult", fmt.Sprint(m.Name != "k8s:validateFalse"), fmt.Sprintf("%q", m.Text()))
	if t := m.String("typeArg"); t != "" {
		t = strings.TrimPrefix(t, "*")
		if dot := strings.LastIndexByte(t, '.'); dot > 0 {
			t = rc.code.Qualified(t[:dot], t[strings.LastIndexByte(t[:dot], '/')+1:dot], t[dot+1:])
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
