package kubernetes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/clusterroleaggregation"
	"kelson.dev/lab/testenv"
)

// role returns a role with the label "to" and a rule for each resource.
func role(name, to string, resources ...string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"to": to}}}
	for _, resource := range resources {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource},
			Verbs: []string{"get"}})
	}
	return r
}

func aggregated(name, to string, from ...string) *rbacv1.ClusterRole {
	r := role(name, to)
	r.AggregationRule = &rbacv1.AggregationRule{}
	for _, label := range from {
		r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors,
			metav1.LabelSelector{MatchLabels: map[string]string{"to": label}})
	}
	return r
}

// wantRules waits until all controllers are idle and checks the resources of a role's rules.
func wantRules(t *testing.T, env *testenv.Env, r *rbacv1.ClusterRole, want ...string) {
	t.Helper()
	env.Settle(t)
	env.Get(t, r)
	var got []string
	for _, rule := range r.Rules {
		got = append(got, strings.Join(rule.Resources, "+"))
	}
	assert.Equalf(t, fmt.Sprint(got), fmt.Sprint(want), "%s has rules for %v, want %v", r.Name, got, want)
}

// An aggregated role has the rules of the roles that it selects, also through other aggregated
// roles, and follows their changes.
func TestAggregation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t))
		view, edit := aggregated("reader", "edit", "view"), aggregated("editor", "", "edit", "view")
		b, a := role("b", "view", "pods", "services"), role("a", "view", "pods", "nodes")
		for _, r := range []*rbacv1.ClusterRole{edit, b, view, a, role("other", "", "secrets")} {
			env.Create(t, r)
		}
		wantRules(t, env, view, "pods", "nodes", "services")
		writer := role("writer", "edit", "configmaps")
		env.Create(t, writer)
		wantRules(t, env, edit, "pods", "nodes", "services", "configmaps")
		env.Get(t, view)
		owns := func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == clusterroleaggregation.FieldOwner &&
				m.Operation == metav1.ManagedFieldsOperationApply && string(m.FieldsV1.Raw) == `{"f:rules":{}}`
		}
		if !slices.ContainsFunc(view.ManagedFields, owns) {
			t.Errorf("the controller does not own the rules: %v", view.ManagedFields)
		}

		env.Get(t, a)
		a.Rules = a.Rules[1:]
		require.NoError(t, env.Client().Update(t.Context(), a))
		require.NoError(t, env.Client().Delete(t.Context(), writer))
		wantRules(t, env, view, "nodes", "pods", "services")
		wantRules(t, env, edit, "nodes", "pods", "services")

		// The controller overwrites rules that a client writes to an aggregated role.
		view.Rules = role("", "", "secrets").Rules
		require.NoError(t, env.Client().Update(t.Context(), view))
		wantRules(t, env, view, "nodes", "pods", "services")

		for _, r := range []*rbacv1.ClusterRole{a, b} {
			require.NoError(t, env.Client().Delete(t.Context(), r))
		}
		wantRules(t, env, view)
		wantRules(t, env, edit)
	})
}
