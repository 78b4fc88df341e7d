package console_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// appendAudit adds a request to an audit log; the last line is incomplete, as while a server
// writes.
func appendAudit(t *testing.T, name, user, verb, group, resource, namespace string) {
	t.Helper()
	e := auditv1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "audit.k8s.io/v1"}, Verb: verb,
		ObjectRef: &auditv1.ObjectReference{APIGroup: group, Resource: resource, Namespace: namespace}}
	e.User.Username = user
	line, err := json.Marshal(e)
	require.NoError(t, err)
	const incomplete = `{"kind":"Ev`
	data, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if len(data) > 0 {
		data = data[:len(data)-len(incomplete)]
	}
	data = append(append(append(data, line...), '\n'), incomplete...)
	// append to the file, as a server does with its log
	require.NoError(t, os.WriteFile(name, data, 0o600))
}

// The view Rights shows which rules of a service account are used, unused and missing, and follows
// the audit log.
func TestRights(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	meta := metav1.ObjectMeta{Namespace: "default", Name: "manager"}
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"},
				Verbs: []string{"list", "watch", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"*"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "manager"},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "manager"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "manager"}}},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"update"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io",
			Kind: "Role", Name: "manager"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io",
				Name: "system:serviceaccount:default:manager"}}},
	} {
		env.Create(t, o)
	}
	log := filepath.Join(t.TempDir(), "audit.log")
	const user = "system:serviceaccount:default:manager"
	appendAudit(t, log, "jane", "get", "", "secrets", "default")
	appendAudit(t, log, user, "list", "apps", "deployments", "")
	appendAudit(t, log, user, "watch", "apps", "deployments", "")
	appendAudit(t, log, user, "update", "coordination.k8s.io", "leases", "default")
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test", AuditLog: log}))
	b.goTo("/rights")
	b.shows("No rule is missing, 2 rules have verbs that no request needed.")
	rows := `[...document.querySelectorAll('table')[0].tBodies[0].rows].map((r) => [...r.cells].map((c) => c.innerText.replace(/\s+/g, ' ').trim()).join(';')).join('|')`
	const want = "ClusterRole manager;deployments.apps;list, watch;delete|ClusterRole manager;nodes;;*|Role default/manager in default;leases.coordination.k8s.io;update;"
	assert.Equalf(t, eval[string](b, rows), want, "rules")
	// a request that no role allows appears without a reload
	appendAudit(t, log, user, "create", "", "pods", "default")
	b.shows("1 rule is missing")
	b.until(`document.querySelector('tr.failed')?.innerText.includes('create pods in namespace default')`)
	b.until(`document.querySelector('.least')?.innerText.includes('kind: Role') && !document.querySelector('.least')?.innerText.includes('secrets')`)
	b.shot("rights")
	b.goTo("/rights?user=jane")
	b.until(`document.querySelector('tr.failed')?.innerText.includes('get secrets')`)

	// a user who may not read roles still sees the needed rules
	changes := 0
	b = open(t, start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test", AuditLog: log}))
	b.goTo("/rights")
	b.shows("Forbidden")
	b.shows("create pods in namespace default")
}
