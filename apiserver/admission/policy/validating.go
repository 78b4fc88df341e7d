package policy

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/manifest/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/policy/config"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"kelson.dev/apiserver/admission/matching"
	"kelson.dev/apiserver/store/derived"
)

// Validating is the plugin ValidatingAdmissionPolicy.
type Validating struct {
	*source[*validating.Policy, *validating.PolicyBinding, validating.Validator]
	evaluate generic.Dispatcher[validating.PolicyHook]
}

var _ admission.ValidationInterface = (*Validating)(nil)

// NewValidating returns the plugin. The caller must call Stop.
func NewValidating(cfg Config) (*Validating, error) {
	s, err := newSource(cfg, kinds[*validating.Policy, *validating.PolicyBinding, validating.Validator]{
		policies:   "validatingadmissionpolicies.admissionregistration.k8s.io",
		bindings:   "validatingadmissionpolicybindings.admissionregistration.k8s.io",
		policy:     derived.Of[validating.Policy],
		binding:    derived.Of[validating.PolicyBinding],
		policyName: func(b *validating.PolicyBinding) string { return b.Spec.PolicyName },
		params:     func(p *validating.Policy) *admissionregistrationv1.ParamKind { return p.Spec.ParamKind },
		compile:    compileValidating,
		folder:     config.LoadValidatingConfig,
		read: func(l *initializer.ManifestLoaders, dir string) ([]*validating.Policy, []*validating.PolicyBinding,
			string, error) {
			return l.LoadValidatingPolicyManifests(dir)
		},
		failed: validating.Validator.CompileError,
		label:  metrics.VAPManifestType,
	})
	if err != nil {
		return nil, err
	}
	return &Validating{
		source:   s,
		evaluate: validating.NewDispatcher(cfg.Authorizer, generic.NewPolicyMatcher(matching.Policies(cfg.Store))),
	}, nil
}

// Handles returns true for all operations.
func (p *Validating) Handles(admission.Operation) bool { return true }

// Validate evaluates all policies that match.
func (p *Validating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	hooks, err := p.candidates(a)
	if err != nil || len(hooks) == 0 {
		return err
	}
	return p.evaluate.Dispatch(ctx, a, o, hooks)
}

// compileValidating compiles all expressions of a policy. Compile errors are returned when the
// policy is evaluated.
func compileValidating(policy *validating.Policy) validating.Validator {
	spec := &policy.Spec
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return validating.NewValidator(nil, nil, nil, nil, spec.FailurePolicy, err)
	}
	with := cel.OptionalVariableDeclarations{HasParams: spec.ParamKind != nil, HasAuthorizer: true}
	conditions := func(expressions []cel.ExpressionAccessor,
		with cel.OptionalVariableDeclarations) cel.ConditionEvaluator {
		return compiler.CompileCondition(expressions, with, environment.StoredExpressions)
	}
	compileVariables(compiler, spec.Variables, with)
	validations, messages := make([]cel.ExpressionAccessor, len(spec.Validations)),
		make([]cel.ExpressionAccessor, len(spec.Validations))
	for i, v := range spec.Validations {
		validations[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	annotations := make([]cel.ExpressionAccessor, len(spec.AuditAnnotations))
	for i, a := range spec.AuditAnnotations {
		annotations[i] = &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression}
	}
	// messages must not depend on the user
	withoutAuthorizer := cel.OptionalVariableDeclarations{HasParams: with.HasParams}
	return validating.NewValidator(
		conditions(validations, with),
		compileMatcher(compiler, policy.Name, spec.MatchConditions, spec.FailurePolicy, with),
		conditions(annotations, with),
		conditions(messages, withoutAuthorizer),
		spec.FailurePolicy,
		nil,
	)
}

func compileVariables(compiler *cel.CompositedCompiler, variables []admissionregistrationv1.Variable,
	with cel.OptionalVariableDeclarations) {
	named := make([]cel.NamedExpressionAccessor, len(variables))
	for i, v := range variables {
		named[i] = &validating.Variable{Name: v.Name, Expression: v.Expression}
	}
	compiler.CompileAndStoreVariables(named, with, environment.StoredExpressions)
}

// compileMatcher compiles match conditions. It returns nil if there are none.
func compileMatcher(compiler *cel.CompositedCompiler, policy string,
	conditions []admissionregistrationv1.MatchCondition,
	onFailure *admissionregistrationv1.FailurePolicyType,
	with cel.OptionalVariableDeclarations) matchconditions.Matcher {
	if len(conditions) == 0 {
		return nil
	}
	expressions := make([]cel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		expressions[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	evaluator := compiler.CompileCondition(expressions, with, environment.StoredExpressions)
	return matchconditions.NewMatcher(evaluator, onFailure, "policy", "validate", policy)
}
