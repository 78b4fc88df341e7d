package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/cel/environment"

	"kelson.dev/apiserver/resource"
)

// The variables of rules.
const (
	objectVariable    = "object"
	oldObjectVariable = "oldObject"
	allVariable       = "all"
)

// rule is a compiled Invariant.Rule.
type rule struct {
	program cel.Program
	kinds   []string // kinds that the rule selects from the variable all
}

// newRule compiles the rule of an invariant. It has Kubernetes' functions.
func newRule(text string) (*rule, error) {
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).NewExpressionsEnv().Extend(
		cel.Variable(objectVariable, cel.DynType),
		cel.Variable(oldObjectVariable, cel.DynType),
		cel.Variable(allVariable, cel.MapType(cel.StringType, cel.ListType(cel.DynType))))
	if err != nil {
		return nil, err
	}
	compiled, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if out := compiled.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the rule %q is a value of type %s, want bool", text, out)
	}
	kinds, err := kindsOf(compiled.NativeRep().Expr())
	if err != nil {
		return nil, err
	}
	program, err := env.Program(compiled)
	if err != nil {
		return nil, err
	}
	return &rule{program, kinds}, nil
}

// kindsOf returns the kinds that an expression selects from the variable all.
func kindsOf(expr ast.Expr) (kinds []string, err error) {
	uses := 0
	ast.PostOrderVisit(expr, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			if e.AsIdent() == allVariable {
				uses++
			}
		case ast.SelectKind:
			if operand := e.AsSelect().Operand(); operand.Kind() == ast.IdentKind && operand.AsIdent() == allVariable {
				uses--
				kinds = append(kinds, e.AsSelect().FieldName())
			}
		}
	}))
	if uses != 0 {
		return nil, errors.New("the variable all must be followed by a kind, as in all.Pod")
	}
	return kinds, nil
}

// holds evaluates a rule at a change.
func (r *rule) holds(view View, change Change) (bool, error) {
	all := map[string]any{}
	for _, kind := range r.kinds {
		list := []any{}
		for _, obj := range view.List(kind) {
			list = append(list, obj.Object)
		}
		all[kind] = list
	}
	vars := map[string]any{objectVariable: content(change.Object), oldObjectVariable: content(change.Previous),
		allVariable: all}
	if change.Type == "DELETED" {
		vars[objectVariable], vars[oldObjectVariable] = nil, content(change.Object)
	}
	value, _, err := r.program.Eval(vars)
	if err != nil {
		return false, fmt.Errorf("evaluate: %w; test for fields that may be missing with has(), and for deleted objects with object != null", err)
	}
	holds, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the rule is a value of type %s, want bool", value.Type().TypeName())
	}
	return holds, nil
}

func content(obj *unstructured.Unstructured) any {
	if obj == nil {
		return nil
	}
	return obj.Object
}

// checkKinds returns an error if an invariant names a kind that no resource has.
func checkKinds(invariants []Invariant, served []*resource.Resource) error {
	for _, i := range invariants {
		var kinds []string
		if i.Kind != "" {
			kinds = append(kinds, i.Kind)
		}
		if i.rule != nil {
			kinds = append(kinds, i.rule.kinds...)
		}
		for _, kind := range kinds {
			if !slices.ContainsFunc(served, func(r *resource.Resource) bool { return r.Kind == kind }) {
				return fmt.Errorf("invariant %q: the control plane serves no kind %q", i.Name, kind)
			}
		}
	}
	return nil
}

// checkIgnored returns an error if an entry of Ignore names no resource, so that it ignores
// nothing. Names of services have a colon.
func checkIgnored(ignore []string, served []*resource.Resource) error {
	for _, entry := range ignore {
		name, _, _ := strings.Cut(entry, " ")
		if strings.Contains(name, ":") || slices.ContainsFunc(served, func(r *resource.Resource) bool {
			return r.GroupResource().String() == name
		}) {
			continue
		}
		err := fmt.Errorf("the scenario's Ignore has %q: the control plane serves no resource %q", entry, name)
		plural, _, _ := strings.Cut(name, ".")
		for _, r := range served {
			if strings.EqualFold(r.Plural, plural) || strings.EqualFold(r.Kind, plural) {
				return fmt.Errorf("%w: write %s", err, r.GroupResource())
			}
		}
		return err
	}
	return nil
}

// checkSimulated returns an error if a simulated operator is for a kind that no resource has.
func checkSimulated(rules []Simulated, served []*resource.Resource) error {
	for _, s := range rules {
		kind, group, qualified := strings.Cut(s.Kind, ".")
		if !slices.ContainsFunc(served, func(r *resource.Resource) bool {
			return r.Kind == kind && (!qualified || r.Group == group)
		}) {
			return fmt.Errorf("the control plane serves no kind %q, which is simulated; the definitions of other operators belong to the definitions", s.Kind)
		}
	}
	return nil
}

// compile compiles the rule of an invariant, if it has one.
func (i *Invariant) compile() error {
	var err error
	switch {
	case i.Name == "":
		return errors.New("an invariant has no name")
	case i.Check == nil && i.Rule == "":
		return fmt.Errorf("invariant %q has neither Check nor Rule", i.Name)
	case i.Check != nil && i.Rule != "":
		return fmt.Errorf("invariant %q has both Check and Rule", i.Name)
	case i.Rule != "":
		if i.rule, err = newRule(i.Rule); err != nil {
			return fmt.Errorf("invariant %q: %w", i.Name, err)
		}
	}
	return nil
}

// violated returns an error if a change violates the invariant.
func (i *Invariant) violated(view View, change Change) error {
	if i.Kind != "" && change.Object.GetKind() != i.Kind {
		return nil
	}
	if i.rule == nil {
		return i.Check(view, change)
	}
	holds, err := i.rule.holds(view, change)
	if err == nil && !holds {
		err = errors.New("the rule does not hold: " + i.Rule)
	}
	if err != nil {
		return fmt.Errorf("%s %s %s: %w", change.Type, change.Object.GetKind(), generic(metaOf(change.Object)), err)
	}
	return nil
}
