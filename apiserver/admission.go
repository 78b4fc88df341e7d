package apiserver

import (
	"context"
	"errors"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// Write is a write that admission decides about. T is the pointer type of a version of the kind.
type Write[T runtime.Object] struct {
	Operation admission.Operation
	// Object is the new state, nil for a deletion. Rules must not change it; see [Mutation]. Old is
	// the present state, nil for a create.
	Object, Old T
	// Name is "" in a Mutation of a new object whose name the server will generate.
	Namespace, Name string
	User            user.Info
	DryRun          bool
}

// Admission adds a rule that checks the given operations on a kind, but not on its subresources.
// Without operations, it checks creates and updates. An error rejects the write: errors of package
// field become 422, an APIStatus becomes the response, and other errors become 403.
//
// What the rule reads in tx is part of the write's precondition: if it changes before the write is
// committed, the rule runs again. What the rule writes in tx is committed together with the write,
// or not at all. Writes of a kind with a [Source] are not committed here: their rules run once, and
// cannot write in tx.
//
//	func ToppingsExist(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*v1.Pizza]) error {
//		for _, topping := range w.Object.Spec.Toppings {
//			if _, err := apiserver.Get[*v1.Topping](tx, "", topping.Name); err != nil {
//				return err
//			}
//		}
//		return nil
//	}
func Admission[T runtime.Object](rule func(ctx context.Context, tx *Tx, w *Write[T]) error,
	operations ...admission.Operation) Part {
	return partFunc(func(p *plan) {
		p.rules = append(p.rules, func(s *Server) (*admissionRule, error) {
			return newRule(s, rule, false, operations)
		})
	})
}

// Mutation adds a function that changes objects of a kind before they are validated. It runs for
// the given operations or, without any, for creates and updates, and may change w.Object. What it
// reads in tx is not part of the write's precondition, and it cannot write in tx. It runs a second
// time if a webhook or policy of the cluster has changed the object and asks for reinvocation.
func Mutation[T runtime.Object](change func(ctx context.Context, tx *Tx, w *Write[T]) error,
	operations ...admission.Operation) Part {
	return partFunc(func(p *plan) {
		p.rules = append(p.rules, func(s *Server) (*admissionRule, error) {
			return newRule(s, change, true, operations)
		})
	})
}

type ruleMaker func(*Server) (*admissionRule, error)

// admissionRule is an Admission or a Mutation of any type.
type admissionRule struct {
	served     servedType
	mutates    bool
	operations []admission.Operation
	run        func(ctx context.Context, tx *Tx, a admission.Attributes) error
}

func newRule[T runtime.Object](s *Server, rule func(context.Context, *Tx, *Write[T]) error, mutates bool,
	operations []admission.Operation) (*admissionRule, error) {
	served, err := s.typeOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	if len(operations) == 0 {
		operations = []admission.Operation{admission.Create, admission.Update}
	}
	run := func(ctx context.Context, tx *Tx, a admission.Attributes) error {
		w := &Write[T]{
			Operation: a.GetOperation(), User: a.GetUserInfo(), DryRun: a.IsDryRun(),
		}
		w.Namespace, w.Name = written(a)
		var err error
		if w.Object, err = inVersion[T](served, a.GetObject(), mutates); err != nil {
			return err
		}
		if w.Old, err = inVersion[T](served, a.GetOldObject(), false); err != nil {
			return err
		}
		if err := rule(ctx, tx, w); err != nil || !mutates || a.GetObject() == nil {
			return err
		}
		return writeBack(s, served, w.Object, a.GetObject())
	}
	return &admissionRule{served, mutates, operations, run}, nil
}

// inVersion returns a hub in the version of T. If share is true, the result may be the hub itself.
func inVersion[T runtime.Object](served servedType, hub runtime.Object, share bool) (T, error) {
	var none T
	if hub == nil || reflect.ValueOf(hub).IsNil() {
		return none, nil
	}
	if typed, ok := hub.(T); ok {
		if share {
			return typed, nil
		}
		return typed.DeepCopyObject().(T), nil
	}
	versioned, err := served.res.Codec.ToVersion(hub, served.name)
	if err != nil {
		return none, err
	}
	typed, ok := versioned.(T)
	if !ok {
		return none, apierrors.NewInternalError(errors.New("the type of the object is not that of the admission rule"))
	}
	return typed, nil
}

// writeBack copies a changed object to the hub that it was converted from.
func writeBack(s *Server, served servedType, changed, hub runtime.Object) error {
	if changed == hub {
		return nil
	}
	next, err := s.scheme.UnsafeConvertToVersion(changed, served.kind.gvk(served.kind.hub().name).GroupVersion())
	if err != nil {
		return err
	}
	reflect.ValueOf(hub).Elem().Set(reflect.ValueOf(next).Elem())
	return nil
}

// written returns the namespace and the name of the object of a write. The attributes of a
// deletecollection have no name.
func written(a admission.Attributes) (namespace, name string) {
	if old, err := meta.Accessor(a.GetOldObject()); err == nil && a.GetName() == "" {
		return old.GetNamespace(), old.GetName()
	}
	return a.GetNamespace(), a.GetName()
}

// applies reports whether the rule is for a request.
func (r *admissionRule) applies(a admission.Attributes) bool {
	if !slices.Contains(r.operations, a.GetOperation()) {
		return false
	}
	name := a.GetResource().GroupResource()
	return name == r.served.res.GroupResource() && a.GetSubresource() == ""
}

// admissionRules runs the rules of a server as an admission plugin.
type admissionRules struct {
	server    *Server
	rules     []*admissionRule
	namespace func(ctx context.Context, name string) error // may be nil
}

var (
	_ admission.MutationInterface   = (*admissionRules)(nil)
	_ admission.ValidationInterface = (*admissionRules)(nil)
)

func newRules(s *Server, makers []ruleMaker, namespace func(context.Context, string) error) (*admissionRules, error) {
	c := &admissionRules{server: s, namespace: namespace}
	for _, m := range makers {
		r, err := m(s)
		if err != nil {
			return nil, err
		}
		c.rules = append(c.rules, r)
	}
	return c, nil
}

// Handles reports whether a rule is for an operation.
func (c *admissionRules) Handles(op admission.Operation) bool {
	if c.namespace != nil && op == admission.Create {
		return true
	}
	return slices.ContainsFunc(c.rules, func(r *admissionRule) bool { return slices.Contains(r.operations, op) })
}

// Admit checks the namespace of new objects and runs the mutations.
func (c *admissionRules) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if c.namespace != nil && a.GetOperation() == admission.Create && a.GetNamespace() != "" {
		if err := c.namespace(ctx, a.GetNamespace()); err != nil {
			return rejected(a, err)
		}
	}
	for _, r := range c.rules {
		if !r.mutates || !r.applies(a) {
			continue
		}
		tx, err := c.server.begin(ctx)
		if err != nil {
			return err
		}
		if err := r.run(ctx, tx, a); err != nil {
			return rejected(a, err)
		}
		if len(tx.writes) > 0 {
			return apierrors.NewInternalError(
				errors.New("a mutation wrote to its transaction; only validating admission rules can"))
		}
	}
	return nil
}

// Validate runs the rules once. Everything that they read becomes a precondition of the write.
func (c *admissionRules) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	var rules []*admissionRule
	for _, r := range c.rules {
		if !r.mutates && r.applies(a) {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	run := func(ctx context.Context) (*Tx, error) {
		tx, err := c.server.begin(ctx)
		if err != nil {
			return nil, err
		}
		tx.own = rules[0].served.res.Key(written(a))
		for _, r := range rules {
			if err := r.run(ctx, tx, a); err != nil {
				return nil, rejected(a, err)
			}
		}
		return tx, nil
	}
	tx, err := run(ctx)
	if err != nil {
		return err
	}
	if c.server.mirrors[a.GetResource().GroupResource()] != nil {
		if len(tx.writes) > 0 {
			return apierrors.NewInternalError(
				errors.New("an admission rule of a kind with a source wrote to its transaction"))
		}
		return nil
	}
	unit := resource.UnitOf(ctx)
	if unit == nil || a.IsDryRun() {
		return nil
	}
	unit.Join(func(ctx context.Context) (ops []store.Op, done func(), err error) {
		if tx == nil { // the first attempt failed: decide on the newest state
			if tx, err = run(ctx); err != nil {
				return nil, nil, err
			}
		}
		ops, tx = tx.ops(), nil
		return ops, nil, nil
	})
	return nil
}

// rejected returns the response for the error of a rule.
func rejected(a admission.Attributes, err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	_, name := written(a)
	if errs := fieldErrors(err); errs != nil {
		return apierrors.NewInvalid(a.GetKind().GroupKind(), name, errs)
	}
	if a.GetName() == "" && name != "" {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), name, err)
	}
	return admission.NewForbidden(a, err)
}

// fieldErrors returns the field errors in err, or nil if err contains an error of another type.
func fieldErrors(err error) field.ErrorList {
	var one *field.Error
	if errors.As(err, &one) && err == error(one) {
		return field.ErrorList{one}
	}
	all, ok := err.(utilerrors.Aggregate)
	if !ok {
		return nil
	}
	var errs field.ErrorList
	for _, e := range all.Errors() {
		inner := fieldErrors(e)
		if inner == nil {
			return nil
		}
		errs = append(errs, inner...)
	}
	return errs
}
