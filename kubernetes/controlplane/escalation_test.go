package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/validation"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// schemer writes random roles and bindings, with few names so that they refer to each other.
type schemer struct {
	*rand.Rand
	kubernetes.Interface
}

func (s *schemer) one(choices ...string) string { return choices[s.IntN(len(choices))] }

func (s *schemer) name() string { return fmt.Sprint("o", s.IntN(6)) }

func (s *schemer) namespace() string { return s.one("default", "kube-public") }

func (s *schemer) rules() (rules []rbacv1.PolicyRule) {
	if s.IntN(2) == 0 {
		return []rbacv1.PolicyRule{rule("get", "", "pods")} // the rights that every user has here
	}
	for range 1 + s.IntN(2) {
		r := rule(s.one("get", "list", "create", "update", "*"), s.one("", "apps", "*"),
			s.one("pods", "secrets", "configmaps", "*"))
		if s.IntN(4) == 0 {
			r.ResourceNames = []string{s.one("a", "b")}
		}
		rules = append(rules, r)
	}
	return rules
}

func (s *schemer) subjects() []rbacv1.Subject {
	if s.IntN(4) == 0 {
		return []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: user.AllAuthenticated}}
	}
	return subject("mallory")
}

func (s *schemer) clusterRole() *rbacv1.ClusterRole {
	r := clusterRole(s.name(), s.rules()...)
	switch s.IntN(3) {
	case 0:
		r.Labels = map[string]string{"gather": s.one("1", "2")}
	case 1:
		r.Rules = nil
		r.AggregationRule = &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"gather": s.one("1", "2")}}}}
	}
	return r
}

func (s *schemer) roleBinding() *rbacv1.RoleBinding {
	b := binding(s.name(), s.one("Role", "ClusterRole"), s.one(s.name(), s.name(), "edit"), "")
	b.Subjects = s.subjects()
	return b
}

func (s *schemer) clusterBinding() *rbacv1.ClusterRoleBinding {
	b := clusterBinding(s.name(), s.one(s.name(), s.name(), "edit"), "")
	b.Subjects = s.subjects()
	return b
}

// write sends one request: it creates, replaces, patches or deletes a role or a binding.
func (s *schemer) write(ctx context.Context) error {
	c, in, del := s.RbacV1(), s.namespace(), metav1.DeleteOptions{}
	apply := metav1.PatchOptions{FieldManager: "mallory", Force: new(bool)}
	*apply.Force = true
	var err error
	switch kind, verb := s.IntN(4), s.IntN(4); kind*4 + verb {
	case 0:
		_, err = c.Roles(in).Create(ctx, role(s.name(), s.rules()...), createOpts)
	case 1:
		_, err = c.Roles(in).Update(ctx, role(s.name(), s.rules()...), updateOpts)
	case 2:
		r := role(s.name(), s.rules()...)
		r.TypeMeta = metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}
		_, err = c.Roles(in).Patch(ctx, r.Name, types.ApplyPatchType, text(r), apply)
	case 3:
		err = c.Roles(in).Delete(ctx, s.name(), del)
	case 4:
		_, err = c.ClusterRoles().Create(ctx, s.clusterRole(), createOpts)
	case 5:
		_, err = c.ClusterRoles().Update(ctx, s.clusterRole(), updateOpts)
	case 6:
		_, err = c.ClusterRoles().Patch(ctx, s.name(), types.StrategicMergePatchType, text(s.clusterRole()),
			metav1.PatchOptions{})
	case 7:
		err = c.ClusterRoles().Delete(ctx, s.name(), del)
	case 8:
		_, err = c.RoleBindings(in).Create(ctx, s.roleBinding(), createOpts)
	case 9:
		_, err = c.RoleBindings(in).Update(ctx, s.roleBinding(), updateOpts)
	case 10:
		_, err = c.RoleBindings(in).Patch(ctx, s.name(), types.MergePatchType,
			text(map[string]any{"subjects": s.subjects()}), metav1.PatchOptions{})
	case 11:
		err = c.RoleBindings(in).Delete(ctx, s.name(), del)
	case 12:
		_, err = c.ClusterRoleBindings().Create(ctx, s.clusterBinding(), createOpts)
	case 13:
		_, err = c.ClusterRoleBindings().Update(ctx, s.clusterBinding(), updateOpts)
	case 14:
		_, err = c.ClusterRoleBindings().Patch(ctx, s.name(), types.MergePatchType,
			text(map[string]any{"subjects": s.subjects()}), metav1.PatchOptions{})
	case 15:
		err = c.ClusterRoleBindings().Delete(ctx, s.name(), del)
	}
	return err
}

func text(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// rights returns the permissions of the caller in a namespace.
func rights(t *testing.T, c kubernetes.Interface, namespace string) (rules []rbacv1.PolicyRule) {
	t.Helper()
	review, err := c.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}, createOpts)
	require.NoError(t, err)
	for _, r := range review.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources,
			ResourceNames: r.ResourceNames})
	}
	return rules
}

// Without escalate, bind or impersonate, no sequence of writes gives a user more rights.
func TestNoSequenceOfRequestsEscalates(t *testing.T) {
	allowed, refused := 0, 0
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			plane := start(t, controlplane.Config{})
			chance := rand.New(rand.NewPCG(seed, 1))
			admin := &schemer{chance, client(plane, "root", user.SystemPrivilegedGroup)}
			for range 30 { // a graph of roles, partly dangling
				admin.write(t.Context())
			}
			writes := clusterRole("writes", rbacv1.PolicyRule{
				Verbs: []string{"get", "create", "update", "patch", "delete"}, APIGroups: []string{rbacv1.GroupName},
				Resources: []string{"*"},
			}, rule("get", "", "pods"), rule("get", "apps", "*"))
			require.Value[*rbacv1.ClusterRole](t)(admin.RbacV1().ClusterRoles().Create(t.Context(), writes, createOpts))
			require.Value[*rbacv1.ClusterRoleBinding](t)(admin.RbacV1().ClusterRoleBindings().Create(t.Context(),
				clusterBinding("writes", "writes", "mallory"), createOpts))
			synctest.Wait() // until rules are aggregated

			mallory := &schemer{chance, client(plane, "mallory")}
			before := map[string][]rbacv1.PolicyRule{}
			for _, namespace := range []string{"default", "kube-public", "kube-system"} {
				before[namespace] = rights(t, mallory, namespace)
			}
			for step := range 120 {
				if err := mallory.write(t.Context()); err != nil {
					refused++
					continue
				}
				allowed++
				synctest.Wait()
				for namespace, had := range before {
					if covered, more := validation.Covers(had, rights(t, mallory, namespace)); !covered {
						t.Fatalf("seed %d, step %d: new rights in %s: %v", seed, step, namespace, more)
					}
				}
			}
			plane.Stop()
		})
	}
	if allowed < 50 || refused < 50 {
		t.Errorf("%d requests were allowed and %d refused: too few for this test", allowed, refused)
	}
}
