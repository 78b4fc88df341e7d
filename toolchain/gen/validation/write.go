package validation

import (
	"fmt"
	"slices"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
)

// write writes the function of a type.
func (g *generator) write(n *node) {
	name := g.code.functionName(n.typ.Decl)
	g.code.Expand(`// ${name} checks the rules that the markers of a $type and its fields declare.
func ${name}(ctx $context.Context, op $operation.Operation, fldPath *$field.Path, obj, oldObj ${value}) (errs $field.ErrorList) {`,
		source.Vars{"name": name, "type": n.typ.Decl.Name, "value": g.code.nilForm(n.typ)})
	g.code.Printf("%s", g.code.statements(n.rules.calls))
	if !n.rules.opaque {
		g.code.Printf("%s", g.partStatements(n.parts))
		for _, f := range n.fields {
			g.writeField(n.typ, f)
		}
	}
	g.code.Printf("return errs\n}\n")
}

func (g *generator) partStatements(parts []part) string {
	var calls []call
	for _, p := range parts {
		if g.has(p.typ, map[string]bool{}) {
			calls = append(calls, p.call)
		}
	}
	return g.code.statements(calls)
}

// writeField writes the validation of a field. An update does not validate a field that it leaves
// unchanged.
func (g *generator) writeField(owner *loader.Named, f *field) {
	calls := f.rules.calls
	nested := ""
	if f.typ != nil && g.has(f.typ, map[string]bool{}) {
		nested = "errs = append(errs, " + g.code.functionName(f.typ.Decl) + "(ctx, op, fldPath, obj, oldObj)...)\n"
		if isPointer(f.Type()) && structOf(f.Type()) != nil {
			nested = "if obj != nil {\n" + nested + "}\n"
		}
	}
	inner := g.partStatements(f.parts)
	if len(calls) == 0 && nested == "" && inner == "" {
		return
	}
	if elem, ok := element(f.Type()).(*loader.Pointer); ok && isSlice(f.Type()) {
		check := call{fn: g.code.Expanded("$validate.PtrSliceNoNils", nil) + "[" + g.code.Type(elem.Elem) + "]", short: true}
		calls = slices.Insert(slices.Clone(calls), 0, check)
	}
	value := g.code.nilForm(f.Type())
	equal := g.code.Expanded("$equality.Semantic.DeepEqual(obj, oldObj)", nil)
	if isComparable(valueType(f.Type())) {
		equal = "(obj == oldObj || obj != nil && oldObj != nil && *obj == *oldObj)"
	}
	path := "fldPath"
	if name := jsonName(f.Field); name != "" {
		path = fmt.Sprintf("fldPath.Child(%q)", name)
	}
	g.code.Expand(`
	{ // ${name}
		old := $safe.Field(oldObj, func(o *${owner}) ${value} { return ${oldField} })
		errs = append(errs, func(fldPath *$field.Path, obj, oldObj ${value}, correlated bool) (errs $field.ErrorList) {
			if correlated && op.Type == $operation.Update && ${equal} {
				return nil
			}
			${calls}${nested}${inner}return errs
		}(${path}, ${newField}, old, oldObj != nil)...)
	}`, source.Vars{
		"name": f.Name, "owner": g.code.Type(owner), "value": value, "path": path, "equal": equal,
		"oldField": address("o", f.Field), "newField": address("obj", f.Field),
		"calls": g.code.statements(calls), "nested": nested, "inner": inner,
	})
}
