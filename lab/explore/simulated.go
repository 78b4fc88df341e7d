package explore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/cel/environment"

	"kelson.dev/operator/client"
)

// Simulated is another operator that the explored one needs, as a rule: "a Certificate becomes
// ready with a Secret". It acts on each object of a kind when everything else is quiet, once for
// each generation. It is not part of the explored operator, so no faults happen to it.
//
// Strings in Status and Creates may contain expressions in CEL, such as ${object.spec.secretName}.
// The variable object is the object. A string that is one expression becomes its value, of any
// type.
type Simulated struct {
	// Kind is the kind of the objects, such as Certificate, or Certificate.cert-manager.io.
	Kind string
	// When, if not empty, is an expression in CEL that must be true for an object.
	When string
	// Status is applied to the object's status, and Creates are objects that are applied. Those
	// without a namespace are created in that of the object, and belong to the object.
	Status  map[string]any
	Creates []map[string]any

	program *simulation
}

// simulation is a compiled rule.
type simulation struct {
	when        cel.Program            // nil: always
	expressions map[string]cel.Program // by text
}

// simulatedManager is the field manager of the writes of simulated operators.
const simulatedManager = "explore-simulated"

// compile compiles the expressions of a rule.
func (s *Simulated) compile() error {
	switch {
	case s.Kind == "":
		return errors.New("a simulated operator has no Kind")
	case len(s.Status) == 0 && len(s.Creates) == 0:
		return fmt.Errorf("the simulated operator of %s has neither Status nor Creates, so it does nothing", s.Kind)
	}
	s.program = &simulation{expressions: map[string]cel.Program{}}
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).NewExpressionsEnv().Extend(
		cel.Variable(objectVariable, cel.DynType))
	if err != nil {
		return err
	}
	compile := func(text string) (cel.Program, error) {
		compiled, issues := env.Compile(text)
		if err := issues.Err(); err != nil {
			return nil, fmt.Errorf("the simulated operator of %s: %w", s.Kind, err)
		}
		return env.Program(compiled)
	}
	if s.When != "" {
		if s.program.when, err = compile(s.When); err != nil {
			return err
		}
	}
	values := []any{s.Status}
	for _, obj := range s.Creates {
		values = append(values, obj)
	}
	return eachExpression(values, func(text string) error {
		program, err := compile(text)
		s.program.expressions[text] = program
		return err
	})
}

// eachExpression calls a function with each expression in the strings of a tree.
func eachExpression(tree any, do func(text string) error) error {
	var all []error
	switch tree := tree.(type) {
	case map[string]any:
		for _, member := range tree {
			all = append(all, eachExpression(member, do))
		}
	case []any:
		for _, item := range tree {
			all = append(all, eachExpression(item, do))
		}
	case string:
		for rest := tree; ; {
			_, after, found := strings.Cut(rest, "${")
			if !found {
				break
			}
			text, next, closed := strings.Cut(after, "}")
			if !closed {
				return fmt.Errorf("%q has an expression without its end", tree)
			}
			all, rest = append(all, do(text)), next
		}
	}
	return errors.Join(all...)
}

// fill returns a tree with the values of its expressions for an object.
func (s *simulation) fill(tree any, object map[string]any) (any, error) {
	switch tree := tree.(type) {
	case map[string]any:
		filled := make(map[string]any, len(tree))
		for name, member := range tree {
			value, err := s.fill(member, object)
			if err != nil {
				return nil, err
			}
			filled[name] = value
		}
		return filled, nil
	case []any:
		filled := make([]any, len(tree))
		for i, item := range tree {
			value, err := s.fill(item, object)
			if err != nil {
				return nil, err
			}
			filled[i] = value
		}
		return filled, nil
	case string:
		return s.text(tree, object)
	}
	return integers(tree), nil
}

// text returns a string with the values of its expressions, or the value of its only expression.
func (s *simulation) text(text string, object map[string]any) (any, error) {
	filled := text
	for expression, program := range s.expressions {
		quoted := "${" + expression + "}"
		if !strings.Contains(text, quoted) {
			continue
		}
		value, _, err := program.Eval(map[string]any{objectVariable: object})
		if err != nil {
			return nil, fmt.Errorf("evaluate %s: %w", expression, err)
		}
		if text == quoted {
			return integers(value.Value()), nil
		}
		filled = strings.ReplaceAll(filled, quoted, fmt.Sprint(value.Value()))
	}
	return filled, nil
}

// selects reports whether the rule is for an object.
func (s *Simulated) selects(obj *unstructured.Unstructured) (bool, error) {
	kind, group, qualified := strings.Cut(s.Kind, ".")
	if obj.GetKind() != kind || qualified && obj.GroupVersionKind().Group != group ||
		obj.GetDeletionTimestamp() != nil {
		return false, nil
	}
	if s.program.when == nil {
		return true, nil
	}
	value, _, err := s.program.when.Eval(map[string]any{objectVariable: obj.Object})
	if err != nil {
		return false, fmt.Errorf("the simulated operator of %s: evaluate when: %w; test for fields that may be missing with has()", s.Kind, err)
	}
	selected, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the simulated operator of %s: when is a value of type %s, want bool", s.Kind,
			value.Type().TypeName())
	}
	return selected, nil
}

// generationOf identifies an object and the generation on which a rule has acted.
type generationOf struct {
	rule       int
	uid        types.UID
	generation int64
}

// simulate lets a simulated operator act on an object on which it has not acted. It reports whether
// one has acted, and whether the trial can continue.
func (u *users) simulate() (acted, ok bool) {
	if u.simulating {
		return false, true
	}
	u.simulating = true
	defer func() { u.simulating = false }()
	for i := range u.setup.scenario.Simulated {
		rule := &u.setup.scenario.Simulated[i]
		for _, obj := range sortedKeys(u.history.now) {
			if obj == nil || u.simulated[generationOf{i, obj.GetUID(), obj.GetGeneration()}] {
				continue
			}
			selected, err := rule.selects(obj)
			if err != nil {
				u.result.failed = err
				return false, false
			}
			if !selected {
				continue
			}
			u.simulated[generationOf{i, obj.GetUID(), obj.GetGeneration()}] = true
			u.result.log(fmt.Sprintf("the simulated operator of %s acts on %s", rule.Kind,
				qualified(obj.GetNamespace(), obj.GetName())))
			return true, u.try(func(ctx context.Context, c client.Client) error { return rule.act(ctx, c, obj) })
		}
	}
	return false, true
}

// act creates the objects of a rule for an object, and then sets its status.
func (s *Simulated) act(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	options := []client.WriteOption{client.FieldOwner(simulatedManager), client.ForceOwnership}
	for _, template := range s.Creates {
		filled, err := s.program.fill(runtime.DeepCopyJSON(template), obj.Object)
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{Object: filled.(map[string]any)}
		if object.GetNamespace() == "" {
			object.SetNamespace(obj.GetNamespace())
		}
		if object.GetNamespace() == obj.GetNamespace() || obj.GetNamespace() == "" {
			object.SetOwnerReferences(append(object.GetOwnerReferences(), metav1.OwnerReference{
				APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName(), UID: obj.GetUID()}))
		}
		if err := c.Apply(ctx, object, options...); err != nil {
			return err
		}
	}
	if len(s.Status) == 0 {
		return nil
	}
	status, err := s.program.fill(runtime.DeepCopyJSON(s.Status), obj.Object)
	if err != nil {
		return err
	}
	change := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	change.SetGroupVersionKind(obj.GroupVersionKind())
	change.SetNamespace(obj.GetNamespace())
	change.SetName(obj.GetName())
	err = c.Subresource("status").Apply(ctx, change, options...)
	if apierrors.IsNotFound(err) { // the kind has no subresource for its status
		err = c.Apply(ctx, change, options...)
	}
	return client.IgnoreNotFound(err)
}
