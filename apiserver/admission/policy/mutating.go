package policy

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/manifest/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/policy/config"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/cel/environment"

	"kelson.dev/apiserver/admission/matching"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store/derived"
)

// Mutating is the plugin MutatingAdmissionPolicy.
type Mutating struct {
	*source[*mutating.Policy, *mutating.PolicyBinding, mutating.PolicyEvaluator]
	evaluate generic.Dispatcher[mutating.PolicyHook]
}

var _ admission.MutationInterface = (*Mutating)(nil)

// NewMutating returns the plugin. The caller must call Stop.
func NewMutating(cfg Config) (*Mutating, error) {
	s, err := newSource(cfg, kinds[*mutating.Policy, *mutating.PolicyBinding, mutating.PolicyEvaluator]{
		policies:   "mutatingadmissionpolicies.admissionregistration.k8s.io",
		bindings:   "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
		policy:     derived.Of[mutating.Policy],
		binding:    derived.Of[mutating.PolicyBinding],
		policyName: func(b *mutating.PolicyBinding) string { return b.Spec.PolicyName },
		params:     func(p *mutating.Policy) *admissionregistrationv1.ParamKind { return p.Spec.ParamKind },
		compile:    compileMutating,
		folder:     config.LoadMutatingConfig,
		read: func(l *initializer.ManifestLoaders, dir string) ([]*mutating.Policy, []*mutating.PolicyBinding, string,
			error) {
			return l.LoadMutatingPolicyManifests(dir)
		},
		failed: func(e mutating.PolicyEvaluator) error { return e.Error },
		label:  metrics.MAPManifestType,
	})
	if err != nil {
		return nil, err
	}
	return &Mutating{
		source:   s,
		evaluate: mutating.NewDispatcher(cfg.Authorizer, matching.Policies(cfg.Store), models{cfg.Registry}),
	}, nil
}

// Handles returns false for deletion, which has no object to mutate.
func (p *Mutating) Handles(op admission.Operation) bool { return op != admission.Delete }

// Admit applies all policies that match, in the order of their names.
func (p *Mutating) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	hooks, err := p.candidates(a)
	if err != nil || len(hooks) == 0 {
		return err
	}
	return p.evaluate.Dispatch(ctx, a, o, hooks)
}

// compileMutating compiles all expressions of a policy. Compile errors are returned when the policy
// is evaluated.
func compileMutating(policy *mutating.Policy) mutating.PolicyEvaluator {
	spec := &policy.Spec
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return mutating.PolicyEvaluator{Error: err}
	}
	with := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	compileVariables(compiler, spec.Variables, with)
	e := mutating.PolicyEvaluator{
		Matcher:            compileMatcher(compiler, policy.Name, spec.MatchConditions, spec.FailurePolicy, with),
		CompositedCompiler: compiler,
	}
	with.HasPatchTypes = true
	for _, m := range spec.Mutations {
		switch {
		case m.PatchType == admissionregistrationv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			e.Mutators = append(e.Mutators, patch.NewJSONPatcher(compiler.CompileMutatingEvaluator(
				&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, with, environment.StoredExpressions)))
		case m.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			e.Mutators = append(e.Mutators, patch.NewApplyConfigurationPatcher(compiler.CompileMutatingEvaluator(
				&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, with,
				environment.StoredExpressions)))
		}
	}
	return e
}

// models provides the type converters that merge objects of a kind.
type models struct{ registry *resource.Registry }

var _ patch.TypeConverterManager = models{}

// GetTypeConverter returns nil for an unknown kind.
func (m models) GetTypeConverter(kind schema.GroupVersionKind) managedfields.TypeConverter {
	set := m.registry.Current()
	res, ok := set.ByKind(kind.GroupKind())
	if !ok {
		// The kind of a subresource (Scale, Eviction) is built in, and the converter of every
		// built-in resource contains it.
		if res, ok = set.ByName(schema.GroupResource{Resource: "namespaces"}); !ok {
			return nil
		}
	}
	modelled, ok := res.Codec.(resource.Modelled)
	if !ok {
		return nil
	}
	types, err := modelled.TypeConverter()
	if err != nil {
		return nil
	}
	return types
}

// Run does nothing: models come from the registry.
func (models) Run(context.Context) {}
