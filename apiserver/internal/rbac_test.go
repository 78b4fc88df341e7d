package internal_test

import (
	"encoding/json"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/authz/rbac"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

const (
	group           = ".rbac.authorization.k8s.io"
	roles           = "roles" + group
	clusterRoles    = "clusterroles" + group
	bindings        = "rolebindings" + group
	clusterBindings = "clusterrolebindings" + group
)

// state is a store with roles and bindings.
type state struct {
	testing.TB
	*store.Store
}

func open(t testing.TB) state {
	st := storetest.New(t, store.Config{})
	return state{t, st}
}

func (s state) put(resource, namespace, name string, obj any) {
	s.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		s.Fatal(err)
	}
	op := store.Op{Key: store.Key{Resource: resource, Namespace: namespace, Name: name}, Data: data,
		Expect: store.AnyRevision}
	if _, err := s.Commit(s.Context(), op); err != nil {
		s.Fatal(err)
	}
}

func (s state) remove(resource, namespace, name string) {
	s.Helper()
	op := store.Op{Key: store.Key{Resource: resource, Namespace: namespace, Name: name}, Expect: store.AnyRevision}
	if _, err := s.Commit(s.Context(), op); err != nil {
		s.Fatal(err)
	}
}

func (s state) clusterRole(name string, rules ...rbacv1.PolicyRule) {
	s.put(clusterRoles, "", name, rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
}

func (s state) role(namespace, name string, rules ...rbacv1.PolicyRule) {
	s.put(roles, namespace, name, rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Rules: rules})
}

// bind stores a binding of subjects to a role. In a namespace, a role name that begins with a dot
// means a Role there.
func (s state) bind(namespace, name, role string, subjects ...rbacv1.Subject) {
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	if role[0] == '.' {
		ref.Kind, ref.Name = "Role", role[1:]
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == "" {
		s.put(clusterBindings, "", name, rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
		return
	}
	s.put(bindings, namespace, name, rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
}

func userSubject(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "User", Name: name} }

func groupSubject(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }

func accountSubject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

func rule(verb, apiGroup, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{apiGroup}, Resources: []string{resource},
		ResourceNames: names}
}

func path(verb string, paths ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: paths}
}

// ask is a request for a decision of an authorizer.
func ask(who, verb, namespace, group, resource, subresource, name string,
	groups ...string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: who, Groups: groups}, Verb: verb, ResourceRequest: true,
		Namespace: namespace, APIGroup: group, Resource: resource, Subresource: subresource, Name: name,
	}
}

func askPath(who, verb, path string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: verb, Path: path}
}

func want(t testing.TB, a *rbac.Authorizer, q authorizer.AttributesRecord, allowed bool, wantReason string) {
	t.Helper()
	decision, reason, err := a.Authorize(t.Context(), q)
	wanted := authorizer.DecisionNoOpinion
	if allowed {
		wanted = authorizer.DecisionAllow
	}
	if decision != wanted || reason != wantReason || err != nil {
		t.Errorf("%+v: %v, %q, %v; want %v, %q", q, decision, reason, err, wanted, wantReason)
	}
}

// Rules match verbs, groups, resources, subresources, names and paths. Each allowing reason names
// the binding, the role and the subject, and a missing role is part of the reason.
func TestDecisions(t *testing.T) {
	s := open(t)
	s.clusterRole("view", rule("get", "", "pods"), rule("get", "", "pods/log"), rule("*", "apps", "*"),
		rule("update", "", "*/scale"))
	s.clusterRole("one", rule("get", "", "secrets", "token"))
	s.clusterRole("paths", path("get", "/healthz", "/apis/*"), path("*", "/logs"))
	s.role("x", "local", rule("list", "*", "configmaps"))
	s.bind("", "a", "view", userSubject("ann"))
	s.bind("", "b", "one", groupSubject("ops"))
	s.bind("", "c", "paths", accountSubject("ns", "robot"), userSubject("ann"))
	s.bind("x", "d", ".local", userSubject("eve"), accountSubject("", "robot"))
	s.bind("x", "e", "view", accountSubject("ns", "robot"))
	s.bind("y", "f", ".local", userSubject("eve"))
	s.bind("", "g", "gone", userSubject("ann"), userSubject("eve"))
	s.bind("", "h", "one", accountSubject("", "nowhere"))
	a := rbac.New(s.Store)

	const byAnn = `RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "view" to User "ann"`
	const gone = `RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`
	want(t, a, ask("ann", "get", "z", "", "pods", "", "p"), true, byAnn)
	want(t, a, ask("ann", "get", "", "", "pods", "log", "p"), true, byAnn)
	want(t, a, ask("ann", "delete", "z", "apps", "deployments", "status", "p"), true, byAnn)
	want(t, a, ask("ann", "update", "z", "", "things", "scale", "p"), true, byAnn)
	want(t, a, ask("ann", "update", "z", "", "scale", "", "p"), false, gone)
	want(t, a, ask("ann", "update", "z", "", "things", "scaled", "p"), false, gone)
	want(t, a, ask("ann", "list", "z", "", "pods", "", ""), false, gone)
	want(t, a, ask("ann", "get", "z", "", "pods", "exec", "p"), false, gone)
	want(t, a, ask("ann", "get", "z", "batch", "pods", "", "p"), false, gone)
	want(t, a, ask("bob", "get", "z", "", "pods", "", "p"), false, "")

	want(t, a, ask("bob", "get", "z", "", "secrets", "", "token", "ops"), true,
		`RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "one" to Group "ops"`)
	want(t, a, ask("bob", "get", "z", "", "secrets", "", "other", "ops"), false, "")
	want(t, a, ask("bob", "get", "z", "", "secrets", "", "", "ops"), false, "")
	want(t, a, ask("ops", "get", "z", "", "secrets", "", "token"), false, "")

	const byRobot = `RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "paths" to ServiceAccount "robot/ns"`
	const robot = "system:serviceaccount:ns:robot"
	want(t, a, askPath(robot, "get", "/healthz"), true, byRobot)
	want(t, a, askPath(robot, "get", "/apis/x/y"), true, byRobot)
	want(t, a, askPath(robot, "put", "/logs"), true, byRobot)
	want(t, a, askPath(robot, "get", "/apis"), false, "")
	want(t, a, askPath(robot, "get", "/healthz/x"), false, "")
	want(t, a, askPath(robot, "put", "/healthz"), false, "")
	want(t, a, ask(robot, "get", "x", "", "pods", "", "p"), true,
		`RBAC: allowed by RoleBinding "e/x" of ClusterRole "view" to ServiceAccount "robot/ns"`)
	want(t, a, ask(robot, "get", "y", "", "pods", "", "p"), false, "")
	want(t, a, ask("system:serviceaccount:x:robot", "list", "x", "any", "configmaps", "", ""), true,
		`RBAC: allowed by RoleBinding "d/x" of Role "local" to ServiceAccount "robot/x"`)
	want(t, a, ask("system:serviceaccount::nowhere", "get", "x", "", "secrets", "", "token"), false, "")

	want(t, a, ask("eve", "list", "x", "", "configmaps", "", ""), true,
		`RBAC: allowed by RoleBinding "d/x" of Role "local" to User "eve"`)
	want(t, a, ask("eve", "list", "", "", "configmaps", "", ""), false, gone)
	want(t, a, ask("eve", "list", "y", "", "configmaps", "", ""), false,
		`RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "local" not found]`)
	if decision, _, err := a.Authorize(t.Context(), authorizer.AttributesRecord{}); decision != authorizer.DecisionNoOpinion || err != nil {
		t.Error(decision, err)
	}
}

// Every write takes effect with the next decision.
func TestWritesApplyImmediately(t *testing.T) {
	s := open(t)
	a := rbac.New(s.Store)
	q := ask("ann", "get", "x", "", "pods", "", "p", "dev")
	wantAllowed := func(allowed bool) {
		t.Helper()
		if decision, reason, err := a.Authorize(t.Context(), q); (decision == authorizer.DecisionAllow) != allowed ||
			err != nil {
			t.Errorf("%v %q %v", decision, reason, err)
		}
	}
	wantAllowed(false)
	s.bind("x", "b", ".r", userSubject("ann"))
	wantAllowed(false)
	s.role("x", "r", rule("get", "", "pods"))
	wantAllowed(true)
	s.role("x", "r", rule("list", "", "pods"))
	wantAllowed(false)
	s.role("x", "r", rule("get", "", "pods"))
	wantAllowed(true)
	s.bind("x", "b", ".r", userSubject("bob"))
	wantAllowed(false)
	s.bind("x", "b", ".r", userSubject("bob"), groupSubject("dev"))
	wantAllowed(true)
	s.remove(roles, "x", "r")
	wantAllowed(false)
	s.clusterRole("r", rule("*", "*", "*"))
	wantAllowed(false)
	for i := range 20 { // enough bindings for a separate table
		s.clusterRole(fmt.Sprint("c", i), rule("get", "", fmt.Sprint("things", i)))
		s.bind("", fmt.Sprint("c", i), fmt.Sprint("c", i), userSubject("ann"))
	}
	wantAllowed(false)
	s.clusterRole("c7", rule("get", "", "pods"))
	wantAllowed(true)
	s.remove(clusterBindings, "", "c7")
	wantAllowed(false)
	s.bind("", "c8", "c7", groupSubject("dev"))
	wantAllowed(true)
	// a binding that cannot be decoded
	s.put(clusterBindings, "", "c8", map[string]any{"metadata": map[string]any{}, "subjects": 7})
	wantAllowed(false)
}

// RulesFor collects the rules of a user's bindings in the cluster and in one namespace, and reports
// a binding to a missing role. A reference to a missing role or to another kind is an error.
func TestRulesFor(t *testing.T) {
	s := open(t)
	s.clusterRole("view", rule("get", "", "pods"), path("get", "/healthz"))
	s.role("x", "local", rule("list", "", "configmaps"))
	s.bind("", "a", "view", userSubject("ann"), groupSubject("dev"))
	s.bind("x", "b", ".local", groupSubject("dev"))
	s.bind("x", "c", ".gone", groupSubject("dev"))
	a := rbac.New(s.Store)
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{"dev"}}
	resources, paths, incomplete, err := a.RulesFor(t.Context(), ann, "x")
	if len(resources) != 2 || len(paths) != 1 || incomplete || err == nil ||
		err.Error() != `role.rbac.authorization.k8s.io "gone" not found` {
		t.Errorf("%v %v %v %v", resources, paths, incomplete, err)
	}
	if resources, paths, _, err := a.RulesFor(t.Context(), ann, "y"); len(resources) != 1 || len(paths) != 1 ||
		err != nil {
		t.Errorf("%v %v %v", resources, paths, err)
	}
	for _, ref := range []rbacv1.RoleRef{{Kind: "ClusterRole", Name: "gone"}, {Kind: "Role", Name: "view"},
		{Kind: "Pod", Name: "view"}} {
		if rules, err := a.Rules().GetRoleReferenceRules(t.Context(), ref, "x"); err == nil {
			t.Errorf("%v: %v", ref, rules)
		}
	}
	if rules, err := a.Rules().GetRoleReferenceRules(t.Context(), rbacv1.RoleRef{Kind: "Role", Name: "local"},
		"x"); len(rules) != 1 || err != nil {
		t.Error(rules, err)
	}
}

// The cost of a decision with a thousand bindings. bench/authorization compares with Kubernetes'
// authorizer.
func BenchmarkDecision(b *testing.B) {
	s := open(b)
	for i := range 1000 {
		s.clusterRole(fmt.Sprint("r", i), rule("get", "", fmt.Sprint("things", i)))
		s.bind("x", fmt.Sprint("b", i), fmt.Sprint("r", i), userSubject(fmt.Sprint("u", i)))
	}
	a := rbac.New(s.Store)
	q := ask("u500", "get", "x", "", "things500", "", "p", "system:authenticated")
	b.ReportAllocs()
	for b.Loop() {
		decision, _, _ := a.Authorize(b.Context(), &q)
		require.Equal(b, decision, authorizer.DecisionAllow)
	}
}
