// Package rbac authorizes requests by Roles, ClusterRoles and their bindings.
//
// It keeps an index over the store: for each subject (a user or a group, in one namespace or in
// all), the bindings that name it and their rules by resource. The time of a decision depends on
// the number of bindings of the user, not on the number of all bindings. Before each decision, the
// index applies the writes since the last one from the store's log. A written role or binding is
// therefore in effect for the next request, and only the subjects that it affects are recomputed.
//
//	binding ──▶ subjects ──▶ effective rules: computed at the first decision after one of their bindings or roles changed
//	role    ──▶ compiled rules, cached with the stored object
//
// Rules have the same meaning as in Kubernetes. The index reads nothing before the first decision
// and starts no goroutines. The package is safe for concurrent use.
//
//	auth := rbac.New(st)
//	decision, reason, err := auth.Authorize(ctx, attributes)
package rbac

import (
	"context"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/store"
)

// Authorizer allows the requests that rules allow, and has no opinion on others.
type Authorizer struct{ index *index }

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// New returns an authorizer that uses the roles and bindings in a store.
func New(st *store.Store) *Authorizer { return &Authorizer{newIndex(st)} }

// Authorize returns whether a rule allows the request, and as reason the binding that grants the
// rule.
func (a *Authorizer) Authorize(_ context.Context,
	attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	u := attributes.GetUser()
	if u == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if err := a.index.RLock(); err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	defer a.index.RUnlock()
	r := newRequest(attributes)
	namespace := attributes.GetNamespace()
	var errs []error
	for s := range subjects(u, namespace) {
		g := a.index.subjects[s]
		if g == nil {
			continue
		}
		rules := g.effective(a.index.store)
		if reason, ok := rules.allows(&r); ok {
			return authorizer.DecisionAllow, reason, nil
		}
		errs = append(errs, rules.errs...)
	}
	if len(errs) > 0 {
		return authorizer.DecisionNoOpinion, "RBAC: " + utilerrors.NewAggregate(errs).Error(), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// ConditionsAwareAuthorize returns the result of Authorize: rules have no conditions.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context,
	attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, attributes))
}

// EvaluateConditions always returns an error: rules have no conditions.
func (*Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision,
	authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor lists the rules for a user in a namespace, for SelfSubjectRulesReviews.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info,
	namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var resources []authorizer.ResourceRuleInfo
	var paths []authorizer.NonResourceRuleInfo
	rules, err := a.Rules().RulesFor(ctx, u, namespace)
	for i := range rules {
		if r := &rules[i]; len(r.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
			})
		}
		if r := &rules[i]; len(r.NonResourceURLs) > 0 {
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: r.Verbs,
				NonResourceURLs: r.NonResourceURLs})
		}
	}
	return resources, paths, false, err
}
