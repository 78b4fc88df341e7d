package validation

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

// constraints are the values of k8s:update, in the order of the package validate.
var constraints = []string{"NoSet", "NoUnset", "NoModify", "NoAddItem", "NoRemoveItem"}

// update returns one rule for all update markers of a value. It returns the rule for the first of
// these markers, and no rules for the others.
func (rc *ruleCompiler) update(p place, m *marker.Marker) (rules, error) {
	all := rc.meta.updates[p.path]
	for _, c := range all {
		if err := rc.checkConstraint(p, c); err != nil {
			return rules{}, err
		}
	}
	if rc.checked["update "+p.path] {
		return rules{}, nil
	}
	rc.checked["update "+p.path] = true
	var args []string
	for _, c := range constraints {
		if slices.Contains(all, c) {
			args = append(args, rc.code.Expanded("$validate."+c, nil))
		}
	}
	var fn string
	switch native(p.typ).(type) {
	case *loader.Slice:
		match := "nil"
		if slices.Contains(all, "NoAddItem") || slices.Contains(all, "NoRemoveItem") {
			if match, _ = rc.identity(rc.meta.listOf(p), element(p.typ)); match == "nil" {
				return rules{}, fmt.Errorf("NoAddItem and NoRemoveItem need a set or map list: +k8s:listType or +k8s:unique")
			}
		}
		fn, args = pointerSlice(p.typ)+"SliceUpdate", slices.Insert(args, 0, match)
	case *loader.Map:
		fn = "UpdateMap"
	case *loader.Pointer:
		fn = "UpdatePointer"
	case *loader.Struct:
		fn = "UpdateStruct"
	default:
		fn = "UpdateValueByReflect"
		if isComparable(native(p.typ)) {
			fn = "UpdateValueByCompare"
		}
	}
	c := rc.code.lib(fn, args...)
	c.short = true
	return one(c), nil
}

// checkConstraint returns an error if a constraint does not apply to a value.
func (rc *ruleCompiler) checkConstraint(p place, constraint string) error {
	if !slices.Contains(constraints, constraint) {
		return fmt.Errorf("has the unknown value %q; known values: %s", constraint, strings.Join(constraints, ", "))
	}
	compound := isSlice(p.typ) || isMap(p.typ)
	items := strings.HasSuffix(constraint, "Item")
	if p.scope != onField {
		if constraint != "NoModify" || compound {
			return fmt.Errorf("%s does not apply to %s", constraint, p.scope)
		}
		if l := rc.meta.lists[p.parentPath]; p.scope == onElement && l != nil && l.semantic() != "map" {
			return fmt.Errorf("NoModify of elements needs +k8s:listType=map or +k8s:unique=map")
		}
		return nil
	}
	switch {
	case items && !compound:
		return fmt.Errorf("%s applies to lists and maps, not to %s", constraint, p.typ)
	case constraint == "NoModify" && compound:
		return fmt.Errorf("NoModify does not apply to lists and maps; use +k8s:eachVal=+k8s:update=NoModify")
	case !items && constraint != "NoModify" && structOf(p.typ) != nil && !isPointer(p.typ):
		return fmt.Errorf("%s does not apply to structs without a pointer, which are always set", constraint)
	}
	return nil
}

// enum returns the rule of a string type whose constants are its values.
func (rc *ruleCompiler) enum(p place) (rules, error) {
	n := named(p.typ)
	if basic(p.typ) != "string" {
		return rules{}, fmt.Errorf("applies to string types, not to %s", p.typ)
	}
	var values, exclusions []string
	typ := rc.code.Type(n)
	for _, c := range rc.constants(n.Decl) {
		if c.markers.Has("k8s:enumExclude") {
			continue
		}
		value := rc.code.Qualified(n.Decl.Pkg.Path, n.Decl.Pkg.Name, c.name)
		values = append(values, value)
		for _, m := range c.markers {
			if in := payload(m); in != nil && in.Name == "k8s:enumExclude" {
				exclusions = append(exclusions, fmt.Sprintf("{Value: %s, Option: %q, ExcludeWhen: %t},\n", value,
					m.String(""), m.Name == "k8s:ifEnabled"))
			}
		}
	}
	slices.Sort(values)
	set := rc.code.variable("valuesOf_"+n.Decl.Name,
		rc.code.Expanded("$sets.New", nil)+"["+typ+"]("+strings.Join(values, ", ")+")")
	excluded := "nil"
	if len(exclusions) > 0 {
		excluded = rc.code.variable("exclusionsFrom_"+n.Decl.Name,
			"[]"+rc.code.Expanded("$validate.EnumExclusion", nil)+"["+typ+"]{\n"+strings.Join(exclusions, "")+"}")
	}
	return one(rc.code.lib("Enum", set, excluded)), nil
}

// constant is a constant of an enum.
type constant struct {
	name    string
	markers marker.Markers
}

// constants returns the constants of a type in its package, written with the type or as a
// conversion to it.
func (rc *ruleCompiler) constants(d *loader.Decl) (all []constant) {
	for _, file := range d.Pkg.Files {
		for _, decl := range file.Syntax.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.CONST {
				continue
			}
			typed := false // a constant without type and value repeats those of the previous one
			for _, spec := range gen.Specs {
				v := spec.(*ast.ValueSpec)
				if v.Type != nil || len(v.Values) > 0 {
					typed = ofType(v, d.Name)
				}
				if !typed {
					continue
				}
				doc := v.Doc
				if doc == nil && !gen.Lparen.IsValid() {
					doc = gen.Doc
				}
				for _, name := range v.Names {
					if name.Name != "_" {
						all = append(all, constant{name.Name, rc.constantMarkers(file, doc)})
					}
				}
			}
		}
	}
	return all
}

// ofType reports whether a specification declares constants of a type.
func ofType(v *ast.ValueSpec, name string) bool {
	if id, ok := v.Type.(*ast.Ident); ok {
		return id.Name == name
	}
	if v.Type == nil && len(v.Values) > 0 {
		if conv, ok := v.Values[0].(*ast.CallExpr); ok {
			id, ok := conv.Fun.(*ast.Ident)
			return ok && id.Name == name
		}
	}
	return false
}

// constantMarkers returns the markers in the comment of a constant.
func (rc *ruleCompiler) constantMarkers(file *loader.File, doc *ast.CommentGroup) (ms marker.Markers) {
	if doc == nil {
		return nil
	}
	for _, c := range doc.List {
		text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
		if !strings.HasPrefix(text, "+k8s:") {
			continue
		}
		m, err := rc.registry.Parse(text[1:], marker.OnType)
		switch {
		case err != nil:
			rc.problems.add(loader.Errorf(file.Position(c.Pos()), "%v", err))
		case m != nil && payload(m) != nil && payload(m).Name != "k8s:enumExclude":
			rc.problems.add(loader.Errorf(file.Position(c.Pos()), "+%s does not apply to a constant",
				payload(m).Name))
		case m != nil: // others are reported as misplaced
			m.Pos = file.Position(c.Pos())
			ms = append(ms, m)
		}
	}
	return ms
}

const customPrefix = "ValidateCustom_"

// custom returns the call of a hand-written function.
func (rc *ruleCompiler) custom(p place) (rules, error) {
	owner := named(p.typ)
	if p.scope == onField {
		owner = named(p.parent)
	}
	name := customPrefix + owner.Decl.Name
	if p.scope == onField {
		name += "_" + p.field.Name
	}
	value := p.typ.String()
	if !nilable(p.typ) {
		value = "*" + value
	}
	if rc.cfg.Output != nil {
		path, pkg := rc.cfg.Output(owner.Decl.Pkg)
		return one(call{fn: rc.code.Qualified(path, pkg, name)}), nil
	}
	want := fmt.Sprintf("func %s(ctx context.Context, op operation.Operation, fldPath *field.Path, obj, oldObj %s) field.ErrorList", name, value)
	for _, f := range owner.Decl.Pkg.Funcs() {
		if f.Name() != name {
			continue
		}
		params := owner.Decl.Pkg.Params(f)
		if len(params) != 5 || params[3].String() != value || params[4].String() != value {
			return rules{}, fmt.Errorf("needs %s", want)
		}
		rc.claimed[name] = true
		return one(call{fn: rc.code.Qualified(owner.Decl.Pkg.Path, owner.Decl.Pkg.Name, name)}), nil
	}
	return rules{}, fmt.Errorf("needs the function %s", want)
}

// checkCustom reports hand-written functions that no marker calls.
func (rc *ruleCompiler) checkCustom() {
	for _, f := range rc.cfg.Package.Funcs() {
		if strings.HasPrefix(f.Name(), customPrefix) && !rc.claimed[f.Name()] {
			rc.problems.add(loader.Errorf(f.Pos(), "%s: no marker +k8s:customValidation calls it", f.Name()))
		}
	}
}
