package controlplane_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// start starts a control plane that ends with the test.
func start(t testing.TB, cfg controlplane.Config) *controlplane.ControlPlane {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(plane.Stop)
	return plane
}

func client(plane *controlplane.ControlPlane, name string, groups ...string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(plane.RESTConfigAs(&user.DefaultInfo{Name: name, Groups: groups}))
}

func wantForbidden(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%v, want Forbidden", err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v\ndoes not contain %q", err, part)
		}
	}
}

func rule(verb, group, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
}

func role(name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func subject(name string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}
}

func ref(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func binding(name, kind, to, who string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref(kind, to),
		Subjects: subject(who)}
}

func clusterBinding(name, to, who string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref("ClusterRole", to),
		Subjects: subject(who)}
}

var (
	createOpts = metav1.CreateOptions{}
	updateOpts = metav1.UpdateOptions{}
	getOpts    = metav1.GetOptions{}
)

// A binding, and its removal, applies to the next request and only in its namespace.
func TestRightsApplyToTheNextRequest(t *testing.T) {
	plane := start(t, controlplane.Config{})
	ctx, admin, ann := t.Context(), client(plane, "root", user.SystemPrivilegedGroup), client(plane, "ann")
	_, err := ann.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	wantForbidden(t, err, `pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"`)
	require.Value[*rbacv1.RoleBinding](t)(admin.RbacV1().RoleBindings("default").Create(ctx,
		binding("view", "ClusterRole", "view", "ann"), createOpts))
	// allowed by the rules of an aggregated role
	require.Value[*corev1.PodList](t)(ann.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}))
	_, err = ann.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	wantForbidden(t, err)
	_, err = ann.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	wantForbidden(t, err, "at the cluster scope")
	require.NoError(t, admin.RbacV1().RoleBindings("default").Delete(ctx, "view", metav1.DeleteOptions{}))
	_, err = ann.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	wantForbidden(t, err)

	// Discovery is open to authenticated users, and health to all.
	if _, err := ann.Discovery().ServerGroups(); err != nil {
		t.Error(err)
	}
	anonymous := client(plane, user.Anonymous, user.AllUnauthenticated)
	if _, err := anonymous.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
	_, err = anonymous.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	wantForbidden(t, err, `User "system:anonymous" cannot list`)
}

// A user can't grant rights that the user does not have, through roles or bindings and with any
// kind of write.
func TestEscalation(t *testing.T) {
	plane := start(t, controlplane.Config{})
	ctx, admin, ann := t.Context(), client(plane, "root", user.SystemPrivilegedGroup).RbacV1(),
		client(plane, "ann").RbacV1()
	require.Value[*rbacv1.ClusterRole](t)(admin.ClusterRoles().Create(ctx, clusterRole("writer",
		rule("*", rbacv1.GroupName, "*"), rule("get", "", "pods")), createOpts))
	// ann may write roles, but does not have the verbs escalate and bind.
	writer := require.Value[*rbacv1.ClusterRole](t)(admin.ClusterRoles().Get(ctx, "writer", getOpts))
	writer.Rules[0].Verbs = []string{"get", "list", "create", "update", "patch", "delete"}
	require.Value[*rbacv1.ClusterRole](t)(admin.ClusterRoles().Update(ctx, writer, updateOpts))
	require.Value[*rbacv1.ClusterRoleBinding](t)(admin.ClusterRoleBindings().Create(ctx,
		clusterBinding("ann", "writer", "ann"),
		createOpts))

	const grant = "user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n" +
		`{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`
	secrets := rule("get", "", "secrets")
	_, err := ann.Roles("default").Create(ctx, role("r", secrets), createOpts)
	wantForbidden(t, err, `roles.rbac.authorization.k8s.io "r" is forbidden: `+grant)
	_, err = ann.ClusterRoles().Create(ctx, clusterRole("r", secrets), createOpts)
	wantForbidden(t, err, `clusterroles.rbac.authorization.k8s.io "r" is forbidden: `+grant)
	require.Value[*rbacv1.Role](t)(ann.Roles("default").Create(ctx, role("mine", rule("get", "", "pods")), createOpts))
	_, err = ann.Roles("default").Create(ctx, role("dry", secrets), metav1.CreateOptions{DryRun: []string{"All"}})
	wantForbidden(t, err, grant)
	mine := require.Value[*rbacv1.Role](t)(ann.Roles("default").Get(ctx, "mine", getOpts))
	mine.Rules = append(mine.Rules, secrets)
	_, err = ann.Roles("default").Update(ctx, mine, updateOpts)
	wantForbidden(t, err, grant)
	for kind, patch := range map[types.PatchType]string{
		types.MergePatchType: `{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}`,
		types.JSONPatchType:  `[{"op":"replace","path":"/rules/0/resources/0","value":"secrets"}]`,
		types.ApplyPatchType: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"mine"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}`,
	} {
		opts := metav1.PatchOptions{}
		if kind == types.ApplyPatchType {
			opts.FieldManager, opts.Force = "test", new(bool)
			*opts.Force = true
		}
		_, err = ann.Roles("default").Patch(ctx, "mine", kind, []byte(patch), opts)
		wantForbidden(t, err, grant)
		if kind == types.ApplyPatchType { // apply also creates
			_, err = ann.Roles("default").Patch(ctx, "new", kind, []byte(strings.Replace(patch, "mine", "new", 1)),
				opts)
			wantForbidden(t, err, grant)
		}
	}
	// A user can edit a role with more rights than their own only if the edit changes no rules.
	require.Value[*rbacv1.Role](t)(admin.Roles("default").Create(ctx, role("theirs", secrets), createOpts))
	theirs := require.Value[*rbacv1.Role](t)(ann.Roles("default").Get(ctx, "theirs", getOpts))
	theirs.Labels = map[string]string{"a": "b"}
	_, err = ann.Roles("default").Update(ctx, theirs, updateOpts)
	wantForbidden(t, err, grant)
	theirs.Labels, theirs.Finalizers = nil, []string{"example.com/x"}
	// but may change the fields that the garbage collector writes
	require.Value[*rbacv1.Role](t)(ann.Roles("default").Update(ctx, theirs, updateOpts))

	_, err = ann.RoleBindings("default").Create(ctx, binding("b", "Role", "theirs", "ann"), createOpts)
	wantForbidden(t, err, `rolebindings.rbac.authorization.k8s.io "b" is forbidden: `+grant)
	_, err = ann.RoleBindings("default").Create(ctx, binding("b", "ClusterRole", "cluster-admin", "ann"), createOpts)
	wantForbidden(t, err, `{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`)
	_, err = ann.ClusterRoleBindings().Create(ctx, clusterBinding("b", "cluster-admin", "ann"), createOpts)
	wantForbidden(t, err, `clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: user "ann"`)
	// kube-apiserver's errors name the resource of the request, not that of the missing role.
	for kind, create := range map[string]func(kind, role string) error{
		"rolebindings": func(kind, role string) error {
			_, err := ann.RoleBindings("default").Create(ctx, binding("b", kind, role, "ann"), createOpts)
			return err
		},
		"clusterrolebindings": func(kind, role string) error {
			b := clusterBinding("b", role, "ann")
			b.RoleRef.Kind = kind
			_, err := ann.ClusterRoleBindings().Create(ctx, b, createOpts)
			return err
		},
	} {
		if err := create("ClusterRole", "nowhere"); !apierrors.IsNotFound(err) ||
			err.Error() != kind+`.rbac.authorization.k8s.io "nowhere" not found` {
			t.Error(err)
		}
		if err := create("ClusterRole", ""); !apierrors.IsBadRequest(err) || err.Error() != "Name parameter required." {
			t.Error(err)
		}
		wanted := `rolebindings.rbac.authorization.k8s.io "nowhere" not found`
		if kind == "clusterrolebindings" {
			wanted = "Namespace parameter required."
		}
		if err := create("Role", "nowhere"); err == nil || err.Error() != wanted {
			t.Error(err)
		}
	}
	require.Value[*rbacv1.ClusterRoleBinding](t)(admin.ClusterRoleBindings().Create(ctx,
		clusterBinding("gone", "gone", "ann"),
		createOpts))
	_, err = ann.Roles("default").Create(ctx, role("r", secrets), createOpts)
	wantForbidden(t, err, grant+`; resolution errors: [roles.rbac.authorization.k8s.io "gone" not found]`)
	require.NoError(t, admin.ClusterRoleBindings().Delete(ctx, "gone", metav1.DeleteOptions{}))
	require.Value[*rbacv1.RoleBinding](t)(ann.RoleBindings("default").Create(ctx, binding("own", "Role", "mine", "bob"),
		createOpts))

	gather := clusterRole("gather")
	gather.AggregationRule = &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}
	_, err = ann.ClusterRoles().Create(ctx, gather, createOpts)
	wantForbidden(t, err, "must have cluster-admin privileges to use the aggregationRule")

	// With the verbs escalate and bind, the writes are allowed.
	allows := clusterRole("may", rule("escalate", rbacv1.GroupName, "roles"),
		rule("bind", rbacv1.GroupName, "clusterroles"))
	allows.Rules[1].ResourceNames = []string{"view"}
	require.Value[*rbacv1.ClusterRole](t)(admin.ClusterRoles().Create(ctx, allows, createOpts))
	require.Value[*rbacv1.ClusterRoleBinding](t)(admin.ClusterRoleBindings().Create(ctx,
		clusterBinding("may", "may", "ann"),
		createOpts))
	require.Value[*rbacv1.Role](t)(ann.Roles("default").Create(ctx, role("r", secrets), createOpts))
	require.Value[*rbacv1.ClusterRoleBinding](t)(ann.ClusterRoleBindings().Create(ctx,
		clusterBinding("view", "view", "bob"),
		createOpts))
	_, err = ann.ClusterRoles().Create(ctx, clusterRole("r", secrets), createOpts)
	wantForbidden(t, err, grant)
	_, err = ann.ClusterRoleBindings().Create(ctx, clusterBinding("edit", "edit", "bob"), createOpts)
	wantForbidden(t, err)
}

// Access reviews give the authorizer's decision and reason. Users may review their own rights, but
// not those of others.
func TestAccessReviews(t *testing.T) {
	plane := start(t, controlplane.Config{})
	ctx, admin := t.Context(), client(plane, "root", user.SystemPrivilegedGroup)
	require.Value[*rbacv1.RoleBinding](t)(admin.RbacV1().RoleBindings("default").Create(ctx,
		binding("view", "ClusterRole", "view", "ann"), createOpts))
	pods := func(namespace, verb string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Version: "v1", Resource: "pods"}
	}
	wantAnswer := func(status authorizationv1.SubjectAccessReviewStatus, allowed bool, reason string) {
		t.Helper()
		if status.Allowed != allowed || status.Denied || status.Reason != reason || status.EvaluationError != "" {
			t.Errorf("%+v", status)
		}
	}
	const byView = `RBAC: allowed by RoleBinding "view/default" of ClusterRole "view" to User "ann"`
	review := func(a *authorizationv1.ResourceAttributes) *authorizationv1.SubjectAccessReview {
		return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "ann",
			ResourceAttributes: a}}
	}
	v1 := admin.AuthorizationV1()
	wantAnswer(require.Value[*authorizationv1.SubjectAccessReview](t)(v1.SubjectAccessReviews().Create(ctx,
		review(pods("default", "list")), createOpts)).Status, true, byView)
	wantAnswer(require.Value[*authorizationv1.SubjectAccessReview](t)(v1.SubjectAccessReviews().Create(ctx,
		review(pods("default", "delete")), createOpts)).Status, false, "")
	wantAnswer(require.Value[*authorizationv1.SubjectAccessReview](t)(v1.SubjectAccessReviews().Create(ctx,
		review(pods("kube-system", "list")), createOpts)).Status, false, "")
	if _, err := v1.SubjectAccessReviews().Create(ctx, review(nil), createOpts); !apierrors.IsInvalid(err) {
		t.Error(err)
	}
	local := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
		Spec: review(pods("default", "list")).Spec}
	wantAnswer(require.Value[*authorizationv1.LocalSubjectAccessReview](
		t)(v1.LocalSubjectAccessReviews("default").Create(ctx,
		local, createOpts)).Status, true, byView)
	local.Spec.ResourceAttributes = pods("kube-system", "list")
	if _, err := v1.LocalSubjectAccessReviews("default").Create(ctx, local, createOpts); !apierrors.IsInvalid(err) &&
		!apierrors.IsBadRequest(err) {
		t.Error(err)
	}

	// every authenticated user may create reviews about the user itself
	ann := client(plane, "ann").AuthorizationV1()
	self := func(a *authorizationv1.ResourceAttributes) *authorizationv1.SelfSubjectAccessReview {
		return &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a}}
	}
	wantAnswer(require.Value[*authorizationv1.SelfSubjectAccessReview](t)(ann.SelfSubjectAccessReviews().Create(ctx,
		self(pods("default", "list")), createOpts)).Status, true, byView)
	wantAnswer(require.Value[*authorizationv1.SelfSubjectAccessReview](t)(ann.SelfSubjectAccessReviews().Create(ctx,
		self(pods("", "list")), createOpts)).Status, false, "")
	_, err := ann.SubjectAccessReviews().Create(ctx, review(pods("default", "list")), createOpts)
	wantForbidden(t, err)
	rules := require.Value[*authorizationv1.SelfSubjectRulesReview](t)(ann.SelfSubjectRulesReviews().Create(ctx,
		&authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"},
		}, createOpts)).Status
	lists := func(r authorizationv1.ResourceRule) bool {
		return slices.Contains(r.Resources, "pods") && slices.Contains(r.Verbs, "list")
	}
	if rules.Incomplete || !slices.ContainsFunc(rules.ResourceRules, lists) || len(rules.NonResourceRules) == 0 {
		t.Errorf("%+v", rules)
	}
}

// A request with impersonation has the rights of the impersonated user. Impersonating another user
// needs the permission for exactly that user and group.
func TestImpersonation(t *testing.T) {
	plane := start(t, controlplane.Config{})
	ctx, admin := t.Context(), client(plane, "root", user.SystemPrivilegedGroup)
	clientAs := func(config *rest.Config, who string, groups ...string) kubernetes.Interface {
		config.Impersonate = rest.ImpersonationConfig{UserName: who, Groups: groups}
		return kubernetes.NewForConfigOrDie(config)
	}
	whoami := func(ctx context.Context, c kubernetes.Interface) (string, []string, error) {
		review, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
			createOpts)
		if err != nil {
			return "", nil, err
		}
		return review.Status.UserInfo.Username, review.Status.UserInfo.Groups, nil
	}
	name, groups, err := whoami(ctx, clientAs(plane.RESTConfig(), "ann", "dev"))
	if name != "ann" || !slices.Equal(groups, []string{"dev", "system:authenticated"}) || err != nil {
		t.Error(name, groups, err)
	}
	_, err = clientAs(plane.RESTConfig(), "ann").CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	// the administrator's own rights are not used
	wantForbidden(t, err, `User "ann" cannot list resource "pods"`)
	bob := plane.RESTConfigAs(&user.DefaultInfo{Name: "bob"})
	_, _, err = whoami(ctx, clientAs(rest.CopyConfig(bob), "ann"))
	wantForbidden(t, err, `User "bob" cannot impersonate`)
	imp := clusterRole("imp", rule("impersonate", "", "users"))
	imp.Rules[0].ResourceNames = []string{"ann"}
	require.Value[*rbacv1.ClusterRole](t)(admin.RbacV1().ClusterRoles().Create(ctx, imp, createOpts))
	require.Value[*rbacv1.ClusterRoleBinding](t)(admin.RbacV1().ClusterRoleBindings().Create(ctx,
		clusterBinding("imp", "imp", "bob"), createOpts))
	if name, _, err := whoami(ctx, clientAs(rest.CopyConfig(bob), "ann")); name != "ann" || err != nil {
		t.Error(name, err)
	}
	_, _, err = whoami(ctx, clientAs(rest.CopyConfig(bob), "ann", user.SystemPrivilegedGroup))
	wantForbidden(t, err)
	_, _, err = whoami(ctx, clientAs(rest.CopyConfig(bob), "root"))
	wantForbidden(t, err)
}

// A user who may read everything gets no token by a POST to the old path of a watch, which is
// authorized as a watch.
func TestReadersGetNoTokens(t *testing.T) {
	plane := start(t, controlplane.Config{})
	ctx, admin, ann := t.Context(), client(plane, "root", user.SystemPrivilegedGroup), client(plane, "ann")
	reader := clusterRole("reader", rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"*"},
		Resources: []string{"*"}})
	require.Value[*rbacv1.ClusterRole](t)(admin.RbacV1().ClusterRoles().Create(ctx, reader, createOpts))
	require.Value[*rbacv1.ClusterRoleBinding](t)(admin.RbacV1().ClusterRoleBindings().Create(ctx,
		clusterBinding("reader", "reader", "ann"), createOpts))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	require.Value[*corev1.ServiceAccount](t)(admin.CoreV1().ServiceAccounts("default").Create(ctx, account, createOpts))
	body := []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`)
	for path, is := range map[string]func(error) bool{
		"/api/v1/namespaces/default/serviceaccounts/robot/token":       apierrors.IsForbidden,
		"/api/v1/watch/namespaces/default/serviceaccounts/robot/token": apierrors.IsNotFound,
	} {
		if raw, err := ann.CoreV1().RESTClient().Post().AbsPath(path).Body(body).DoRaw(ctx); !is(err) {
			t.Errorf("%s: %s %v", path, raw, err)
		}
	}
}
