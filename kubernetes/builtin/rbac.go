package builtin

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	registry "k8s.io/kubernetes/pkg/registry/rbac"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"kelson.dev/apiserver/resource"
)

// Rules lists the rules of a role and the rules that apply to a user.
type Rules = validation.AuthorizationRuleResolver

// guard prevents users from granting permissions that they do not have, through roles and bindings.
// Kubernetes checks this in the storage of these kinds, before their strategies. Here, hooks check
// it.
type guard struct {
	rules      Rules
	authorizer authorizer.UnconditionalAuthorizer
}

// guarded returns shared with the guard's hooks on the kinds of RBAC. It does not modify shared,
// which all control planes use.
func (k *kinds) guarded(shared []*resource.Resource) []*resource.Resource {
	if k.cfg.Rules == nil {
		return shared
	}
	g := &guard{storageRules{k.cfg.Rules}, k.authorizer()}
	permits := map[string]func(ctx context.Context, hub, old runtime.Object) error{
		"roles": g.role, "clusterroles": g.clusterRole, "rolebindings": g.roleBinding,
		"clusterrolebindings": g.clusterRoleBinding,
	}
	out := make([]*resource.Resource, len(shared))
	for i, r := range shared {
		out[i] = r
		if permit := permits[r.Plural]; permit != nil && r.Group == rbac.GroupName {
			copied := *r
			copied.Hooks = &resource.Hooks{Permit: permit}
			out[i] = &copied
		}
	}
	return out
}

// authorizer returns the configured authorizer, or one that allows everything.
func (k *kinds) authorizer() authorizer.UnconditionalAuthorizer {
	if k.cfg.Authorizer == nil {
		return authorizerfactory.NewAlwaysAllowAuthorizer()
	}
	return k.cfg.Authorizer
}

// onlyGarbageCollectorFields reports whether an update changes only fields that the garbage
// collector writes.
func onlyGarbageCollectorFields(hub, old runtime.Object) bool {
	return old != nil && registry.IsOnlyMutatingGCFields(hub, old, helper.Semantic)
}

// rolesFree reports whether a role may be written regardless of its rules.
func (g *guard) rolesFree(ctx context.Context, hub, old runtime.Object) bool {
	return registry.EscalationAllowed(ctx) || registry.RoleEscalationAuthorized(ctx, g.authorizer) ||
		onlyGarbageCollectorFields(hub, old)
}

func (g *guard) role(ctx context.Context, hub, old runtime.Object) error {
	if g.rolesFree(ctx, hub, old) {
		return nil
	}
	role := hub.(*rbac.Role)
	if err := fewPermissions(role.Rules); err != nil {
		return err
	}
	if err := validation.ConfirmNoEscalationInternal(ctx, g.rules, role.Rules); err != nil {
		return apierrors.NewForbidden(rbac.Resource("roles"), role.Name, err)
	}
	return nil
}

func (g *guard) clusterRole(ctx context.Context, hub, old runtime.Object) error {
	if g.rolesFree(ctx, hub, old) {
		return nil
	}
	role := hub.(*rbac.ClusterRole)
	if err := fewPermissions(role.Rules); err != nil {
		return err
	}
	if err := validation.ConfirmNoEscalationInternal(ctx, g.rules, role.Rules); err != nil {
		return apierrors.NewForbidden(rbac.Resource("clusterroles"), role.Name, err)
	}
	before, _ := old.(*rbac.ClusterRole)
	if !aggregates(role) && !aggregates(before) {
		return nil
	}
	// Aggregation can add arbitrary rules to a role, and restores removed rules. So only users with
	// all permissions may set or remove the aggregation rule.
	everything := []rbac.PolicyRule{
		{Verbs: []string{rbac.VerbAll}, APIGroups: []string{rbac.APIGroupAll}, Resources: []string{rbac.ResourceAll}},
		{Verbs: []string{rbac.VerbAll}, NonResourceURLs: []string{rbac.NonResourceAll}},
	}
	if validation.ConfirmNoEscalationInternal(ctx, g.rules, everything) != nil {
		return apierrors.NewForbidden(rbac.Resource("clusterroles"), role.Name,
			errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

func aggregates(role *rbac.ClusterRole) bool {
	return role != nil && role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

func (g *guard) roleBinding(ctx context.Context, hub, old runtime.Object) error {
	binding := hub.(*rbac.RoleBinding)
	namespace, ok := request.NamespaceFrom(ctx)
	if !ok {
		return apierrors.NewBadRequest("namespace is required")
	}
	return g.binding(ctx, hub, old, "rolebindings", binding.Name, namespace, &binding.RoleRef)
}

func (g *guard) clusterRoleBinding(ctx context.Context, hub, old runtime.Object) error {
	binding := hub.(*rbac.ClusterRoleBinding)
	return g.binding(ctx, hub, old, "clusterrolebindings", binding.Name, metav1.NamespaceNone, &binding.RoleRef)
}

func (g *guard) binding(ctx context.Context, hub, old runtime.Object, plural, name, namespace string,
	ref *rbac.RoleRef) error {
	if registry.EscalationAllowed(ctx) || onlyGarbageCollectorFields(hub, old) ||
		registry.BindingAuthorized(ctx, *ref, namespace, g.authorizer) {
		return nil
	}
	var versioned rbacv1.RoleRef
	if err := rbacv1helpers.Convert_rbac_RoleRef_To_v1_RoleRef(ref, &versioned, nil); err != nil {
		return err
	}
	rules, err := g.rules.GetRoleReferenceRules(ctx, versioned, namespace)
	if err != nil {
		return err
	}
	if err := fewPermissionsOf(rules); err != nil {
		return err
	}
	if err := validation.ConfirmNoEscalation(ctx, g.rules, rules); err != nil {
		return apierrors.NewForbidden(rbac.Resource(plural), name, err)
	}
	return nil
}
