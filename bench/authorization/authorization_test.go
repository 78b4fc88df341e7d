// Package authorization compares the time of an RBAC decision with that of Kubernetes' own
// authorizer, on the same rules, in one run.
//
//	go test -bench . ./authorization
package authorization

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"kelson.dev/apiserver/authz/rbac"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

// policy is a set of roles and bindings.
type policy struct {
	roles    []*rbacv1.ClusterRole
	bindings []*rbacv1.RoleBinding
	cluster  []*rbacv1.ClusterRoleBinding
}

// ofKubernetes returns Kubernetes' authorizer over listers of the policy.
func (p *policy) ofKubernetes(b *testing.B) authorizer.UnconditionalAuthorizer {
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	roles, bindings, cluster := indexer(), indexer(), indexer()
	add := func(to cache.Indexer, obj any) {
		require.NoError(b, to.Add(obj))
	}
	for _, o := range p.roles {
		add(roles, o)
	}
	for _, o := range p.bindings {
		add(bindings, o)
	}
	for _, o := range p.cluster {
		add(cluster, o)
	}
	return upstream.New(&upstream.RoleGetter{Lister: listers.NewRoleLister(indexer())},
		&upstream.RoleBindingLister{Lister: listers.NewRoleBindingLister(bindings)},
		&upstream.ClusterRoleGetter{Lister: listers.NewClusterRoleLister(roles)},
		&upstream.ClusterRoleBindingLister{Lister: listers.NewClusterRoleBindingLister(cluster)})
}

// ofKelson returns Kelson's authorizer over a store with the policy.
func (p *policy) ofKelson(b *testing.B) authorizer.UnconditionalAuthorizer {
	st := storetest.New(b, store.Config{})
	put := func(resource string, obj metav1.Object) {
		data, err := json.Marshal(obj)
		require.NoError(b, err)
		key := store.Key{Resource: resource + ".rbac.authorization.k8s.io", Namespace: obj.GetNamespace(),
			Name: obj.GetName()}
		_, err = st.Commit(context.Background(), store.Op{Key: key, Data: data})
		require.NoError(b, err)
	}
	for _, o := range p.roles {
		put("clusterroles", o)
	}
	for _, o := range p.bindings {
		put("rolebindings", o)
	}
	for _, o := range p.cluster {
		put("clusterrolebindings", o)
	}
	return rbac.New(st)
}

// bindings are the numbers of bindings to measure.
const bindings = 1000

// shared returns a policy in which each user is bound to its own role, in one namespace or in all.
func shared(namespace string) *policy {
	p := &policy{}
	for i := range bindings {
		p.add(i, namespace, fmt.Sprint("user-", i))
	}
	return p
}

// alone returns a policy in which all bindings have the same user.
func alone() *policy {
	p := &policy{}
	for i := range bindings {
		p.add(i, "x", "user-500")
	}
	return p
}

func (p *policy) add(i int, namespace, who string) {
	role := fmt.Sprint("role-", i)
	p.roles = append(p.roles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"apps"},
			Resources: []string{"deployments", "replicasets"}},
		{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{fmt.Sprint("things", i)}},
	}})
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: who}}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("binding-", i)}
	if namespace == "" {
		p.cluster = append(p.cluster, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	} else {
		p.bindings = append(p.bindings, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	}
}

func BenchmarkDecision(b *testing.B) {
	allowed := &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "user-500", Groups: []string{"dev", "ops", user.AllAuthenticated}}, Verb: "get",
		ResourceRequest: true,
		Namespace:       "x", APIGroup: "example.com", APIVersion: "v1", Resource: "things500", Name: "one",
	}
	refused := *allowed
	refused.Verb = "delete"
	for _, policy := range []struct {
		name string
		*policy
	}{{"one-of-1000-in-the-namespace", shared("x")}, {"one-of-1000-in-the-cluster", shared("")},
		{"all-1000-of-one-user", alone()}} {
		for _, side := range []struct {
			name string
			made authorizer.UnconditionalAuthorizer
		}{{"kubernetes", policy.ofKubernetes(b)}, {"kelson", policy.ofKelson(b)}} {
			for name, q := range map[string]authorizer.Attributes{"allowed": allowed, "refused": &refused} {
				want := authorizer.DecisionAllow
				if name == "refused" {
					want = authorizer.DecisionNoOpinion
				}
				b.Run(policy.name+"/"+name+"/"+side.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if decision, _, err := side.made.Authorize(b.Context(), q); decision != want || err != nil {
							b.Fatal(decision, err)
						}
					}
				})
			}
		}
	}
}
