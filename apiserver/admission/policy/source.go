package policy

import (
	"fmt"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Config configures the plugins.
type Config struct {
	Store *store.Store
	// Registry has the kinds of parameters.
	Registry *resource.Registry
	// Authorizer is used by the variable authorizer of expressions.
	Authorizer authorizer.UnconditionalAuthorizer
}

// source provides the compiled policies that have bindings, sorted by name. P is the type of
// policies, B of bindings, E of compiled policies.
type source[P, B runtime.Object, E any] struct {
	store    *store.Store
	registry *resource.Registry
	view     *derived.View[*bound[P, B, E]]
	resolved atomic.Pointer[resolved[P, B, E]]
}

// bound are the policies of one state of the store.
type bound[P, B runtime.Object, E any] struct {
	hooks  []generic.PolicyHook[P, B, E]
	params []*admissionregistrationv1.ParamKind // of each policy; nil: no parameters
	any    bool                                 // any policy has parameters
}

// resolved are policies with access to their parameters, for one state of the registry.
type resolved[P, B runtime.Object, E any] struct {
	from       *bound[P, B, E]
	generation uint64
	hooks      []generic.PolicyHook[P, B, E]
}

// kinds describes one of the two kinds of policies.
type kinds[P, B runtime.Object, E any] struct {
	policies, bindings string // resources
	policy             func(*store.Object) (P, error)
	binding            func(*store.Object) (B, error)
	policyName         func(B) string
	params             func(P) *admissionregistrationv1.ParamKind
	compile            func(P) E
}

// compiled is the key under which a compiled policy is cached with its object.
type compiled struct{}

func newSource[P, B runtime.Object, E any](cfg Config, k kinds[P, B, E]) *source[P, B, E] {
	s := &source[P, B, E]{store: cfg.Store, registry: cfg.Registry}
	s.view = derived.NewView(cfg.Store, func(sn *store.Snapshot) (*bound[P, B, E], error) {
		bindings := map[string][]B{}
		for obj := range sn.Scan(k.bindings, "", store.Key{}) {
			b, err := k.binding(obj)
			if err != nil {
				return nil, err
			}
			bindings[k.policyName(b)] = append(bindings[k.policyName(b)], b)
		}
		all := &bound[P, B, E]{}
		for obj := range sn.Scan(k.policies, "", store.Key{}) {
			if len(bindings[obj.Key.Name]) == 0 {
				continue // a policy that is not bound has no effect
			}
			p, err := k.policy(obj)
			if err != nil {
				return nil, err
			}
			e, err := obj.Memo(compiled{}, func() (any, error) { return k.compile(p), nil })
			if err != nil {
				return nil, err
			}
			all.hooks = append(all.hooks, generic.PolicyHook[P, B, E]{Policy: p, Bindings: bindings[obj.Key.Name], Evaluator: e.(E)})
			all.params = append(all.params, k.params(p))
			all.any = all.any || k.params(p) != nil
		}
		return all, nil
	}, k.policies, k.bindings)
	return s
}

// Idle reports whether no policy has a binding.
func (s *source[P, B, E]) Idle(admission.Operation) bool {
	all, err := s.view.Get()
	return err == nil && len(all.hooks) == 0
}

// hooks returns the policies that have bindings, with access to their parameters.
func (s *source[P, B, E]) hooks() ([]generic.PolicyHook[P, B, E], error) {
	all, err := s.view.Get()
	if err != nil {
		return nil, err
	}
	if !all.any {
		return all.hooks, nil
	}
	set := s.registry.Current()
	if r := s.resolved.Load(); r != nil && r.from == all && r.generation == set.Generation {
		return r.hooks, nil
	}
	next := &resolved[P, B, E]{from: all, generation: set.Generation}
	for i, hook := range all.hooks {
		if kind := all.params[i]; kind != nil {
			hook.ParamInformer, hook.ParamScope, hook.ConfigurationError = s.paramsOf(set, kind)
		}
		next.hooks = append(next.hooks, hook)
	}
	s.resolved.Store(next)
	return next.hooks, nil
}

// paramsOf returns access to the objects of a kind of parameters.
func (s *source[P, B, E]) paramsOf(set *resource.Set, kind *admissionregistrationv1.ParamKind) (informers.GenericInformer, meta.RESTScope, error) {
	gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	res, ok := set.ByKind(gvk.GroupKind())
	if ok {
		_, ok = res.Serves(gvk.Version)
	}
	if !ok {
		return nil, nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
	}
	scope := meta.RESTScopeRoot
	if res.Namespaced {
		scope = meta.RESTScopeNamespace
	}
	return &params{store: s.store, resource: res, version: gvk.Version}, scope, nil
}
