// Package rbac decides by Roles, ClusterRoles and the bindings to them.
//
// The decision comes from an index over the store: of each subject (a user or a group, in one namespace or in all) the bindings that
// name it, and of these the rules, by resource. What a request costs depends on what its user is bound to, not on how many bindings
// there are. Before each decision the index takes in the writes since the last one, from the store's log: a role or a binding that was
// written is in force for the next request, and costs what it touches itself.
//
//	binding ──▶ its subjects ──▶ the rules in force for each: made at the first decision, again after a binding or a role of theirs changed
//	role    ──▶ its compiled rules, kept with the stored object
//
// Rules mean what they mean in Kubernetes. Nothing is read before the first decision, and there is no goroutine. All of it is safe
// for concurrent use.
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

// Authorizer allows what rules allow and has no opinion on anything else.
type Authorizer struct{ index *index }

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// New returns an authorizer by the roles and bindings in a store.
func New(st *store.Store) *Authorizer { return &Authorizer{newIndex(st)} }

// Authorize says whether a rule allows the request, and which binding brought it.
func (a *Authorizer) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
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
		in := g.inForce(a.index.store)
		if reason, ok := in.allows(&r); ok {
			return authorizer.DecisionAllow, reason, nil
		}
		errs = append(errs, in.errs...)
	}
	if len(errs) > 0 {
		return authorizer.DecisionNoOpinion, "RBAC: " + utilerrors.NewAggregate(errs).Error(), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// ConditionsAwareAuthorize is Authorize: rules have no conditions.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, attributes))
}

// EvaluateConditions fails: rules have no conditions.
func (*Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor lists what a user may do in a namespace, for rules reviews.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
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
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		}
	}
	return resources, paths, false, err
}
