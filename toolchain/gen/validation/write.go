package validation

import (
	"fmt"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
)

// statements returns the calls for one value as Go source. It uses the variables obj, oldObj and
// errs. A call of a cohort can end only the validation of its cohort.
func (g *generator) statements(calls []call) string {
	var cohorts []string
	for _, c := range calls {
		if c.cohort == "" && !slices.Contains(cohorts, "") {
			cohorts = slices.Insert(cohorts, 0, "")
		} else if !slices.Contains(cohorts, c.cohort) {
			cohorts = append(cohorts, c.cohort)
		}
	}
	var b strings.Builder
	for _, cohort := range cohorts {
		var first, later []call
		for _, c := range calls {
			switch {
			case c.cohort != cohort:
			case c.short:
				first = append(first, c)
			default:
				later = append(later, c)
			}
		}
		end := "return errs"
		if cohort != "" {
			end = "return"
			fmt.Fprintf(&b, "func() { // %s\n", cohort)
		}
		b.WriteString(g.ending(first, end))
		for _, c := range later {
			comments(&b, c)
			if c.silent {
				fmt.Fprintf(&b, "%s\n", g.expression(c))
			} else {
				fmt.Fprintf(&b, "errs = append(errs, %s...)\n", g.expression(c))
			}
		}
		if cohort != "" {
			b.WriteString("}()\n")
		}
	}
	return b.String()
}

// ending returns the calls that can end the validation of a value. All of them run, even if the
// first one fails.
func (g *generator) ending(calls []call, end string) string {
	var b strings.Builder
	if len(calls) > 1 {
		b.WriteString("done := false\n")
	}
	for _, c := range calls {
		comments(&b, c)
		stop := end
		if len(calls) > 1 {
			stop = "done = true"
		}
		if c.silent {
			fmt.Fprintf(&b, "if len(%s) > 0 {\n%s\n}\n", g.expression(c), stop)
		} else {
			fmt.Fprintf(&b, "if e := %s.MarkShortCircuit(); len(e) > 0 {\nerrs = append(errs, e...)\n%s\n}\n",
				g.expression(c), stop)
		}
	}
	if len(calls) > 1 {
		fmt.Fprintf(&b, "if done {\n%s\n}\n", end)
	}
	return b.String()
}

func comments(b *strings.Builder, c call) {
	for _, line := range c.comments {
		fmt.Fprintf(b, "// %s\n", line)
	}
}

// write writes the function of a type.
func (g *generator) write(n *node) {
	name := g.functionName(n.typ.Decl)
	g.Expand(`// ${name} checks the rules that the markers of a $type and its fields declare.
func ${name}(ctx $context.Context, op $operation.Operation, fldPath *$field.Path, obj, oldObj ${value}) (errs $field.ErrorList) {`,
		source.Vars{"name": name, "type": n.typ.Decl.Name, "value": g.nilForm(n.typ)})
	g.Printf("%s", g.statements(n.rules.calls))
	if !n.rules.opaque {
		g.Printf("%s", g.partStatements(n.parts))
		for _, f := range n.fields {
			g.writeField(n.typ, f)
		}
	}
	g.Printf("return errs\n}\n")
}

func (g *generator) partStatements(parts []part) string {
	var calls []call
	for _, p := range parts {
		if g.has(p.typ, map[string]bool{}) {
			calls = append(calls, p.call)
		}
	}
	return g.statements(calls)
}

// writeField writes the validation of a field. An update does not validate a field that it leaves
// unchanged.
func (g *generator) writeField(owner *loader.Named, f *field) {
	calls := f.rules.calls
	nested := ""
	if f.typ != nil && g.has(f.typ, map[string]bool{}) {
		nested = "errs = append(errs, " + g.functionName(f.typ.Decl) + "(ctx, op, fldPath, obj, oldObj)...)\n"
		if isPointer(f.Type()) && structOf(f.Type()) != nil {
			nested = "if obj != nil {\n" + nested + "}\n"
		}
	}
	inner := g.partStatements(f.parts)
	if len(calls) == 0 && nested == "" && inner == "" {
		return
	}
	if elem, ok := element(f.Type()).(*loader.Pointer); ok && isSlice(f.Type()) {
		check := call{fn: g.Expanded("$validate.PtrSliceNoNils", nil) + "[" + g.Type(elem.Elem) + "]", short: true}
		calls = slices.Insert(slices.Clone(calls), 0, check)
	}
	value := g.nilForm(f.Type())
	equal := g.Expanded("$equality.Semantic.DeepEqual(obj, oldObj)", nil)
	if isComparable(valueType(f.Type())) {
		equal = "(obj == oldObj || obj != nil && oldObj != nil && *obj == *oldObj)"
	}
	path := "fldPath"
	if name := jsonName(f.Field); name != "" {
		path = fmt.Sprintf("fldPath.Child(%q)", name)
	}
	g.Expand(`
	{ // ${name}
		old := $safe.Field(oldObj, func(o *${owner}) ${value} { return ${oldField} })
		errs = append(errs, func(fldPath *$field.Path, obj, oldObj ${value}, correlated bool) (errs $field.ErrorList) {
			if correlated && op.Type == $operation.Update && ${equal} {
				return nil
			}
			${calls}${nested}${inner}return errs
		}(${path}, ${newField}, old, oldObj != nil)...)
	}`, source.Vars{"name": f.Name, "owner": g.Type(owner), "value": value, "oldField": address("o", f.Field), "newField": address("obj", f.Field),
		"equal": equal, "calls": g.statements(calls), "nested": nested, "inner": inner, "path": path})
}
