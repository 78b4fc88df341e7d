package apitest_test

import (
	"slices"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/bootstrappolicy"
	"kelson.dev/kubernetes/controlplane"
)

// restarts runs control planes on the same state, one after the other.
type restarts struct {
	t     *testing.T
	state *store.Store
}

func (r restarts) run(do func(rbacclient.RbacV1Interface)) {
	r.t.Helper()
	plane, err := controlplane.Start(r.t.Context(), controlplane.Config{Store: r.state, Controllers: controlplane.NoControllers{}})
	require.NoError(r.t, err)
	defer plane.Stop()
	do(kubernetes.NewForConfigOrDie(plane.RESTConfig()).RbacV1())
}

// The first start creates the default roles and bindings, and a start without changes writes
// nothing. Later starts restore what was removed, keep additions and leave protected objects as
// they are.
func TestEnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := storetest.New(t, store.Config{})
		ctx, get := t.Context(), metav1.GetOptions{}
		r := restarts{t, state}
		must := func(_ any, err error) {
			t.Helper()
			require.NoError(t, err)
		}
		r.run(func(c rbacclient.RbacV1Interface) {
			admin, err := c.ClusterRoles().Get(ctx, "cluster-admin", get)
			if err != nil || admin.UID == "" || admin.CreationTimestamp.IsZero() || len(admin.Rules) != 2 {
				t.Fatalf("%v %v", admin, err)
			}
			roles, err := c.ClusterRoles().List(ctx, metav1.ListOptions{})
			if err != nil || len(roles.Items) < 70 {
				t.Errorf("%d cluster roles, %v", len(roles.Items), err)
			}
			if role, err := c.Roles("kube-system").Get(ctx, "extension-apiserver-authentication-reader",
				get); err != nil || len(role.Rules) != 1 {
				t.Errorf("%v %v", role, err)
			}
		})
		before := state.Snapshot().Revision()
		r.run(func(rbacclient.RbacV1Interface) {})
		if after := state.Snapshot().Revision(); after != before {
			t.Errorf("a restart without changes wrote %d revisions", after-before)
		}

		update := metav1.UpdateOptions{}
		r.run(func(c rbacclient.RbacV1Interface) {
			// This role loses a rule and gets another: the lost one is restored, and the other is
			// kept.
			scheduler, err := c.ClusterRoles().Get(ctx, "system:kube-scheduler", get)
			must(nil, err)
			scheduler.Rules = append(scheduler.Rules[1:],
				rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"x"}, Resources: []string{"y"}})
			must(c.ClusterRoles().Update(ctx, scheduler, update))
			// The same for subjects.
			kubeProxy, err := c.ClusterRoleBindings().Get(ctx, "system:node-proxier", get)
			must(nil, err)
			kubeProxy.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "bob"}}
			must(c.ClusterRoleBindings().Update(ctx, kubeProxy, update))
			// Protected objects are not changed.
			basic, err := c.ClusterRoles().Get(ctx, "system:basic-user", get)
			must(nil, err)
			basic.Annotations[rbacv1.AutoUpdateAnnotationKey], basic.Rules = "false", nil
			must(c.ClusterRoles().Update(ctx, basic, update))
			// Deleted objects are created again.
			must(nil, c.RoleBindings("kube-system").Delete(ctx, "system::leader-locking-kube-scheduler",
				metav1.DeleteOptions{}))
			// A binding that was split from another copies the changes of that one.
			discovery, err := c.ClusterRoleBindings().Get(ctx, "system:discovery", get)
			must(nil, err)
			discovery.Annotations[rbacv1.AutoUpdateAnnotationKey], discovery.Subjects = "false", nil
			must(c.ClusterRoleBindings().Update(ctx, discovery, update))
			must(nil, c.ClusterRoleBindings().Delete(ctx, "system:public-info-viewer", metav1.DeleteOptions{}))
		})
		r.run(func(c rbacclient.RbacV1Interface) {
			hasResource := func(rules []rbacv1.PolicyRule, resource string) bool {
				return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
					return slices.Contains(r.Resources, resource)
				})
			}
			scheduler, err := c.ClusterRoles().Get(ctx, "system:kube-scheduler", get)
			if err != nil || !hasResource(scheduler.Rules, "y") || !hasResource(scheduler.Rules, "events") {
				t.Errorf("%v %v", scheduler.Rules, err)
			}
			proxier, err := c.ClusterRoleBindings().Get(ctx, "system:node-proxier", get)
			if err != nil || len(proxier.Subjects) != 2 {
				t.Errorf("%v %v", proxier.Subjects, err)
			}
			if basic, err := c.ClusterRoles().Get(ctx, "system:basic-user", get); err != nil || len(basic.Rules) != 0 {
				t.Errorf("%v %v", basic.Rules, err)
			}
			must(c.RoleBindings("kube-system").Get(ctx, "system::leader-locking-kube-scheduler", get))
			viewer, err := c.ClusterRoleBindings().Get(ctx, "system:public-info-viewer", get)
			if err != nil || len(viewer.Subjects) != 0 || viewer.RoleRef.Name != "system:public-info-viewer" {
				t.Errorf("%v %v", viewer, err)
			}
			if _, err := c.ClusterRoles().Get(ctx, "unused", get); !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	})
}

// BenchmarkEnsure measures the policy's cost for a control plane that starts empty, and for one
// that restarts.
func BenchmarkEnsure(b *testing.B) {
	none := func() *rest.Config { b.Error("unexpected update"); return nil }
	ensure := func(st *store.Store) {
		err := bootstrappolicy.Ensure(b.Context(), bootstrappolicy.Config{Store: st, REST: none, Aggregated: true})
		require.NoError(b, err)
	}
	empty := storetest.New(b, store.Config{})
	for name, from := range map[string]func() *store.Snapshot{"empty": empty.Snapshot, "there": func() *store.Snapshot {
		st := empty.Snapshot().Fork()
		defer st.Close()
		ensure(st)
		return st.Snapshot()
	}} {
		b.Run(name, func(b *testing.B) {
			sn := from()
			b.ReportAllocs()
			for b.Loop() {
				st := sn.Fork()
				ensure(st)
				st.Close()
			}
		})
	}
}
