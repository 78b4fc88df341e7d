package apitest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"kelson.dev/apiserver/authz/rbac"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/internal/require"
)

const group = ".rbac.authorization.k8s.io"

// objects provides the current roles and bindings of a store to Kubernetes' own authorizer.
type objects struct{ *store.Store }

func (o objects) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	return derived.Get[rbacv1.Role](o.Snapshot(), "roles"+group, namespace, name)
}

func (o objects) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	return derived.Get[rbacv1.ClusterRole](o.Snapshot(), "clusterroles"+group, "", name)
}

func (o objects) ListRoleBindings(_ context.Context, namespace string) (all []*rbacv1.RoleBinding, err error) {
	for b := range derived.List[rbacv1.RoleBinding](o.Snapshot(), "rolebindings"+group, namespace) {
		all = append(all, b)
	}
	return all, nil
}

func (o objects) ListClusterRoleBindings(context.Context) (all []*rbacv1.ClusterRoleBinding, err error) {
	for b := range derived.List[rbacv1.ClusterRoleBinding](o.Snapshot(), "clusterrolebindings"+group, "") {
		all = append(all, b)
	}
	return all, nil
}

// chance generates objects with few different names, so that they refer to each other.
type chance struct{ *rand.Rand }

func (c chance) one(choices ...string) string { return choices[c.IntN(len(choices))] }

func (c chance) subset(choices ...string) (out []string) {
	for range 1 + c.IntN(2) {
		out = append(out, c.one(choices...))
	}
	return out
}

func (c chance) rules() (rules []rbacv1.PolicyRule) {
	for range c.IntN(4) {
		r := rbacv1.PolicyRule{Verbs: c.subset("get", "list", "update", "*")}
		if c.IntN(5) == 0 {
			r.NonResourceURLs = c.subset("/healthz", "/apis/*", "/apis**", "*", "/")
		} else {
			r.APIGroups, r.Resources = c.subset("", "apps", "*"),
				c.subset("pods", "pods/log", "*", "*/scale", "deployments", "*/log", "a/b/c", "/", "pods/")
			if c.IntN(3) == 0 {
				r.ResourceNames = c.subset("p", "q", "")
			}
		}
		rules = append(rules, r)
	}
	return rules
}

func (c chance) subjects() (subjects []rbacv1.Subject) {
	for range c.IntN(4) {
		subjects = append(subjects, rbacv1.Subject{
			Kind: c.one("User", "Group", "ServiceAccount", "Pod"), Namespace: c.one("", "x", "y"),
			Name: c.one("ann", "dev", "system:serviceaccount:x:ann"),
		})
	}
	return subjects
}

func (c chance) asks() *authorizer.AttributesRecord {
	q := &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: c.one("ann", "dev", "system:serviceaccount:x:ann", "system:serviceaccount:y:dev"),
			Groups: c.subset("dev", "ann", "ops")},
		Verb: c.one("get", "list", "update", "delete"),
	}
	if c.IntN(5) == 0 {
		q.Path = c.one("/healthz", "/apis/x", "/apis", "/", "/other", "")
		return q
	}
	q.ResourceRequest, q.Namespace, q.APIGroup = true, c.one("", "x", "y"), c.one("", "apps", "batch", "*")
	q.Resource, q.Subresource, q.Name = c.one("pods", "deployments", "*", "a", "a/b", ""),
		c.one("", "log", "scale", "b/c", "c"), c.one("", "p", "r")
	return q
}

// The index decides like Kubernetes' own authorizer, with any writes in between.
func TestAgreesWithKubernetes(t *testing.T) {
	allowed := 0
	for seed := range uint64(30) {
		c := chance{rand.New(rand.NewPCG(seed, 0))}
		st, err := store.Open(store.Config{Retain: 1 + c.IntN(100)})
		require.NoError(t, err)
		oracle, index := upstream.New(objects{st}, objects{st}, objects{st}, objects{st}), rbac.New(st)
		for range 150 {
			for range c.IntN(5) {
				meta := metav1.ObjectMeta{Name: fmt.Sprint("o", c.IntN(12)), Namespace: c.one("x", "y")}
				ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: c.one("Role", "ClusterRole", "ClusterRole"),
					Name: fmt.Sprint("o", c.IntN(12))}
				if c.IntN(5) == 0 {
					now := metav1.Now()
					meta.DeletionTimestamp = &now // commit deletes it
				}
				var resource string
				var obj metav1.Object
				switch c.IntN(4) {
				case 0:
					resource, obj = "roles"+group, &rbacv1.Role{ObjectMeta: meta, Rules: c.rules()}
				case 1:
					meta.Namespace = ""
					resource, obj = "clusterroles"+group, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: c.rules()}
				case 2:
					resource, obj = "rolebindings"+group,
						&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: c.subjects()}
				case 3:
					meta.Namespace = ""
					resource, obj = "clusterrolebindings"+group,
						&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: c.subjects()}
				}
				exists := st.Snapshot().Get(store.Key{Resource: resource, Namespace: meta.Namespace,
					Name: meta.Name}) != nil
				if exists || meta.DeletionTimestamp == nil {
					commit(t, st, resource, obj)
				}
			}
			for range 10 {
				q := c.asks()
				want, _, wantErr := oracle.Authorize(t.Context(), q)
				got, reason, err := index.Authorize(t.Context(), q)
				if got != want || err != nil || wantErr != nil {
					t.Fatalf("seed %d: %+v: %v %q %v, Kubernetes says %v %v", seed, q, got, reason, err, want, wantErr)
				}
				if got == authorizer.DecisionAllow {
					allowed++
				}
			}
			q := c.asks()
			wantRules, _, _, _ := oracle.RulesFor(t.Context(), q.User, q.Namespace)
			rules, _, _, _ := index.RulesFor(t.Context(), q.User, q.Namespace)
			if len(rules) != len(wantRules) {
				t.Fatalf("seed %d: rules of %v in %s: %d, Kubernetes has %d", seed, q.User, q.Namespace, len(rules),
					len(wantRules))
			}
		}
		st.Close()
	}
	if allowed < 3000 {
		t.Errorf("only %d requests were allowed", allowed)
	}
}
