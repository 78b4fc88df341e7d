// Package celtypes bounds the sizes of the types in CEL expressions before they are type-checked.
//
// CEL's type checker represents types as graphs and walks them as trees. A type can contain another
// one twice, as the keys and the values of a map, so nested comprehensions can build a type whose
// tree has exponentially many parts:
//
//	[{1:1}].all(x0, [{x0:x0}].all(x1, [{x1:x1}].all(x2, true)))
//
// A hundred more bytes make the checker a thousand times slower. [Check] computes an upper bound
// of the number of parts, usually in linear time, and refuses expressions above a limit:
//
//	if errs := new(celtypes.Scope).Check(field.NewPath("spec", "expression"), text); len(errs) > 0 {
//		return errs // instead of compiling text
//	}
//
// All functions are safe for concurrent use, except for the methods of one [Scope].
package celtypes

import (
	"math"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limit is the maximum size of the type of any part of an expression: the number of nodes of the
// type's tree. int has 1, list(int) 2, map(string, list(int)) 4.
const Limit = 1000

// Expressions of a usual size have small types, up to ordinary. maxExcess is the maximum sum of
// what all parts of all expressions in a scope have beyond that. The checker needs about 2 µs for
// each.
const (
	ordinary  = 10
	maxExcess = 50_000
)

// maxEmpty is the maximum number of empty lists, maps and optionals whose types other parts of the
// expression determine.
const maxEmpty = 50

// parser parses with all macros that Kubernetes' environments have; some have fewer.
var parser = sync.OnceValue(func() *cel.Env {
	env, err := cel.NewEnv(
		cel.EnableHiddenAccumulatorName(true), // so that no identifier of a user names one
		cel.OptionalTypes(), ext.Bindings(), ext.TwoVarComprehensions(), ext.Lists(),
	)
	if err != nil {
		panic(err) // the options are constant
	}
	return env
})

// plain parses without expanding macros.
var plain = sync.OnceValue(func() *cel.Env {
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.ClearMacros())
	if err != nil {
		panic(err) // the options are constant
	}
	return env
})

// maxExpanded is the maximum number of nodes of an expression after the expansion of macros.
const maxExpanded = 100_000

// expanded returns about how many nodes an expression has after the expansion of macros. The macros
// optMap and optFlatMap copy their target, so a chain of them grows exponentially.
func expanded(e ast.Expr) int {
	n := 1
	switch e.Kind() {
	case ast.SelectKind:
		n += expanded(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			target := expanded(call.Target())
			if name := call.FunctionName(); name == "optMap" || name == "optFlatMap" {
				target *= 2
			}
			n += target
		}
		for _, arg := range call.Args() {
			n += expanded(arg)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			n += expanded(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			n += expanded(entry.AsMapEntry().Key()) + expanded(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			n += expanded(f.AsStructField().Value())
		}
	}
	return min(n, math.MaxInt32)
}

// Scope is the context of the expressions of one object: the named expressions, which the others
// use as variables.NAME, and the size of all types so far. The zero value is empty.
type Scope struct {
	variables map[string]size
	excess    int
}

// Check returns an error at path if the types in an expression could be too large. It ignores
// expressions that cannot be parsed.
func (s *Scope) Check(path *field.Path, expression string) field.ErrorList {
	if _, ok := s.check(expression); !ok {
		return tooComplex(path, expression)
	}
	return nil
}

// Add checks an expression like Check, and adds it as variables.NAME.
func (s *Scope) Add(path *field.Path, name, expression string) field.ErrorList {
	of, ok := s.check(expression)
	if !ok {
		return tooComplex(path, expression)
	}
	if s.variables == nil {
		s.variables = map[string]size{}
	}
	s.variables[name] = of
	return nil
}

func tooComplex(path *field.Path, expression string) field.ErrorList {
	return field.ErrorList{field.Invalid(path, shortened(expression),
		"expression is too complex: its types could be too large to check")}
}

// shortened returns the beginning of a long expression.
func shortened(expression string) string {
	const most = 500
	if runes := []rune(expression); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return expression
}

// check returns the size of the type of an expression. ok is false if it or another type in the
// expression could be above the limit.
//
// The type of an empty literal such as [] has a parameter, to which the checker may bind any type
// in the expression, and that type may again have parameters. check therefore computes the sizes
// several times, and assumes that each parameter has the size of the largest type of the previous
// time.
func (s *Scope) check(expression string) (of size, ok bool) {
	source, issues := plain().Parse(expression)
	if issues.Err() != nil {
		return node, true
	}
	if expanded(source.NativeRep().Expr()) > maxExpanded {
		return node, false
	}
	parsed, issues := parser().Parse(expression)
	if issues.Err() != nil {
		return node, true
	}
	m := measure{Scope: s, parameter: 1}
	for round := 0; ; round++ {
		m.largest, m.empty, m.excess = 0, 0, s.excess
		of = m.expr(parsed.NativeRep().Expr())
		if m.largest > Limit || m.empty > maxEmpty || m.excess > maxExcess {
			return of, false
		}
		if round >= m.empty {
			s.excess = m.excess
			return size{nodes: of.nodes}, true
		}
		m.parameter = m.largest
	}
}

// size is an upper bound of the size of a type.
type size struct {
	nodes int
	open  bool // the type may contain parameters
}

func (a size) max(b size) size { return size{max(a.nodes, b.nodes), a.open || b.open} }

func (a size) plus(b size) size {
	return size{min(a.nodes+b.nodes, math.MaxInt32), a.open || b.open}
}

var node = size{nodes: 1}

// measure computes the sizes of all types in one expression.
type measure struct {
	*Scope
	bound     map[string][]size // identifiers, innermost last
	parameter int               // the assumed size of each parameter
	largest   int               // of all sizes
	empty     int               // number of literals with parameters
	excess    int               // of this expression and the previous ones in the scope
}

// expr returns the size of the type of an expression.
func (m *measure) expr(e ast.Expr) size {
	of := m.sizeOf(e)
	m.largest = max(m.largest, of.nodes)
	m.excess = min(m.excess+max(0, of.nodes-ordinary), math.MaxInt32)
	return of
}

func (m *measure) sizeOf(e ast.Expr) size {
	switch e.Kind() {
	case ast.IdentKind:
		if bound := m.bound[e.AsIdent()]; len(bound) > 0 {
			return bound[len(bound)-1]
		}
	case ast.SelectKind:
		s := e.AsSelect()
		of := m.expr(s.Operand())
		if s.IsTestOnly() {
			return node
		}
		if operand := s.Operand(); operand.Kind() == ast.IdentKind && operand.AsIdent() == "variables" &&
			len(m.bound["variables"]) == 0 {
			if v, ok := m.variables[s.FieldName()]; ok {
				return v
			}
		}
		return of
	case ast.CallKind:
		return m.call(e.AsCall())
	case ast.ListKind:
		if e.AsList().Size() == 0 {
			return m.parametric(1)
		}
		var elements size
		for _, element := range e.AsList().Elements() {
			elements = elements.max(m.expr(element))
		}
		return node.plus(elements)
	case ast.MapKind:
		if e.AsMap().Size() == 0 {
			return m.parametric(2)
		}
		var keys, values size
		for _, entry := range e.AsMap().Entries() {
			keys = keys.max(m.expr(entry.AsMapEntry().Key()))
			values = values.max(m.expr(entry.AsMapEntry().Value()))
		}
		return node.plus(keys).plus(values)
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			m.expr(f.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		return m.comprehension(e.AsComprehension())
	}
	return node
}

// parametric returns the size of the type of an empty literal with n parameters.
func (m *measure) parametric(n int) size {
	m.empty += n
	of := size{nodes: 1, open: true}
	for range n {
		of = of.plus(size{nodes: m.parameter})
	}
	return of
}

// isEmpty reports whether an expression is an empty literal.
func isEmpty(e ast.Expr) bool {
	switch e.Kind() {
	case ast.ListKind:
		return e.AsList().Size() == 0
	case ast.MapKind:
		return e.AsMap().Size() == 0
	case ast.CallKind:
		return isNone(e.AsCall())
	}
	return false
}

func isNone(call ast.CallExpr) bool {
	return call.FunctionName() == "none" && len(call.Args()) == 0 || call.FunctionName() == "optional.none"
}

// unifying are the functions whose operands have the same type.
var unifying = map[string]bool{
	operators.Conditional: true, operators.Add: true, operators.Equals: true, operators.NotEquals: true,
	"orValue": true, "or": true,
}

// call returns the size of the type of a call: of its largest operand, or one more for
// optional_type(operand), list(operand) and type(operand).
func (m *measure) call(call ast.CallExpr) size {
	if isNone(call) {
		return m.parametric(1)
	}
	operands := call.Args()
	if call.IsMemberFunction() {
		operands = append([]ast.Expr{call.Target()}, operands...)
	}
	if call.FunctionName() == operators.Conditional && len(operands) == 3 {
		m.expr(operands[0])
		operands = operands[1:]
	}
	if call.FunctionName() == mapInsert && len(operands) == 3 {
		of := m.expr(operands[0])
		return of.max(node.plus(m.expr(operands[1])).plus(m.expr(operands[2])))
	}
	var of size
	unify := unifying[call.FunctionName()] && len(operands) == 2
	certain := false // an operand has a type without parameters
	for _, operand := range operands {
		if unify && isEmpty(operand) {
			continue
		}
		one := m.expr(operand)
		certain = certain || !one.open
		of = of.max(one)
	}
	// Of two operands, an empty literal has the type of the other one, if that is certain.
	for _, operand := range operands {
		if unify && !certain && isEmpty(operand) {
			of = of.max(m.expr(operand))
		}
	}
	if _, operator := operators.FindReverse(call.FunctionName()); operator &&
		call.FunctionName() != operators.OptIndex && call.FunctionName() != operators.OptSelect {
		return node.max(of)
	}
	return node.plus(of)
}

// mapInsert is the function with which transformMap builds its result.
const mapInsert = "cel.@mapInsert"

// unused is the iteration variable of cel.bind and other macros without iteration.
const unused = "#unused"

// comprehension returns the size of the type of a macro's expansion.
func (m *measure) comprehension(c ast.ComprehensionExpr) size {
	of := m.expr(c.IterRange())
	// The range of cel.bind is an empty list that no other expression refers to.
	iterates := c.IterVar() != unused
	if !iterates {
		m.empty--
	}
	element := size{nodes: max(1, of.nodes-1), open: of.open}
	var accumulator size
	if init := c.AccuInit(); iterates && isEmpty(init) {
		// The result of map and filter, whose type the step determines.
		accumulator = node
	} else {
		accumulator = m.expr(init)
	}
	m.bind(c.AccuVar(), accumulator)
	m.bind(c.IterVar(), element)
	if c.HasIterVar2() {
		m.bind(c.IterVar2(), element)
	}
	m.expr(c.LoopCondition())
	accumulator = accumulator.max(m.expr(c.LoopStep()))
	m.free(c.IterVar())
	if c.HasIterVar2() {
		m.free(c.IterVar2())
	}
	m.free(c.AccuVar())
	m.bind(c.AccuVar(), accumulator)
	defer m.free(c.AccuVar())
	return m.expr(c.Result())
}

func (m *measure) bind(name string, to size) {
	if m.bound == nil {
		m.bound = map[string][]size{}
	}
	m.bound[name] = append(m.bound[name], to)
}

func (m *measure) free(name string) {
	m.bound[name] = m.bound[name][:len(m.bound[name])-1]
}
