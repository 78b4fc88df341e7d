package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Rules lists the rules behind an authorizer's decisions, for checks against privilege escalation.
// It implements AuthorizationRuleResolver of Kubernetes' role registry. Callers must not change the
// rules, which are shared.
type Rules struct{ index *index }

// Rules returns the rules behind the authorizer's decisions.
func (a *Authorizer) Rules() Rules { return Rules(*a) }

// GetRoleReferenceRules returns the rules of a role that a binding in a namespace refers to.
func (r Rules) GetRoleReferenceRules(_ context.Context, ref rbacv1.RoleRef,
	namespace string) ([]rbacv1.PolicyRule, error) {
	b := binding{key: store.Key{Namespace: namespace}, ref: ref}
	sn, key := r.index.store.Snapshot(), b.role()
	switch key.Resource {
	case clusterRoles:
		stored, err := derived.Get[rbacv1.ClusterRole](sn, key.Resource, "", key.Name)
		if err != nil {
			return nil, err
		}
		return stored.Rules, nil
	case roles:
		stored, err := derived.Get[rbacv1.Role](sn, key.Resource, key.Namespace, key.Name)
		if err != nil {
			return nil, err
		}
		return stored.Rules, nil
	}
	return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}

// RulesFor returns the rules for a user in a namespace. If it returns an error, the rules are
// incomplete.
func (r Rules) RulesFor(ctx context.Context, u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var errs []error
	r.VisitRulesFor(ctx, u, namespace, func(_ fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool {
		if rule != nil {
			rules = append(rules, *rule)
		}
		if err != nil {
			errs = append(errs, err)
		}
		return true
	})
	return rules, utilerrors.NewAggregate(errs)
}

// VisitRulesFor calls visit with each rule for a user in a namespace and its binding, and with each
// error, until visit returns false. It holds no locks while it calls visit.
func (r Rules) VisitRulesFor(_ context.Context, u user.Info, namespace string,
	visit func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool) {
	if err := r.index.RLock(); err != nil {
		visit(nil, nil, err)
		return
	}
	var all []bound // a copy, because visit runs without the lock
	seen := map[*binding]bool{}
	for s := range subjects(u, namespace) {
		if g := r.index.subjects[s]; g != nil {
			for _, b := range g.bound {
				if !seen[b.binding] {
					seen[b.binding] = true
					all = append(all, b)
				}
			}
		}
	}
	sn := r.index.store.Snapshot()
	r.index.RUnlock()
	for _, b := range all {
		role, err := resolve(sn, b.binding)
		if err != nil {
			if !visit(nil, nil, err) {
				return
			}
			continue
		}
		for i := range role.rules {
			if !visit(source(b), &role.rules[i], nil) {
				return
			}
		}
	}
}

// source describes the binding of a rule.
type source bound

func (s source) String() string { return s.describe(s.at) }
