package rights

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/internal/require"
)

// Rules with resourceNames apply only to these names, and the groups of a user come from its
// requests.
func TestNamesAndGroups(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	text := ""
	for _, line := range []string{
		"jane get settings", "jane get extra", "jane update settings", "jane create -", "carl get settings",
	} {
		f := strings.Fields(line)
		text += fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":%q,"user":{"username":%q,"groups":["dev-%s","system:authenticated"]},"objectRef":{"resource":"configmaps","namespace":"default","name":%q}}`+"\n",
			f[1], f[0], f[0], strings.TrimPrefix(f[2], "-"))
	}
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	l := newLog(name, "jane")
	require.NoError(t, l.read())
	if !l.groups["dev-jane"] || l.groups["dev-carl"] || l.events != 4 {
		t.Errorf("groups %v, %d events", l.groups, l.events)
	}
	rule := func(names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names,
			Verbs: verbs}
	}
	state, err := compare(l.sorted(), l.requests, []bound{
		{Kind: "Role", Name: "named", Namespace: "default",
			Rules: []rbacv1.PolicyRule{rule([]string{"settings", "other"}, "get", "create", "delete")}},
		{Kind: "Role", Name: "updater", Namespace: "default", Through: "dev-jane",
			Rules: []rbacv1.PolicyRule{rule(nil, "update")}},
		{Kind: "Role", Name: "elsewhere", Namespace: "kube-system",
			Rules: []rbacv1.PolicyRule{rule([]string{"extra"}, "get")}},
	}, true)
	require.NoError(t, err)
	got := ""
	for _, r := range state.Requests {
		got += fmt.Sprintf("%s %v\n", r.What, r.Missing)
	}
	// create has no name when the server checks a rule, and a rule for the name settings does not
	// allow the name extra
	want := "create configmaps in namespace default true\nget configmaps in namespace default named extra true\nupdate configmaps in namespace default false\n"
	if got != want {
		t.Errorf("requests:\n%swant:\n%s", got, want)
	}
	got = ""
	for _, r := range state.Rules {
		got += fmt.Sprintf("%s used %v unused %v names %v group %q\n", r.Role, r.Used, r.Unused, r.UnusedNames, r.Group)
	}
	want = "named used [get] unused [create delete] names [other] group \"\"\n" +
		"elsewhere used [] unused [get] names [extra] group \"\"\nupdater used [update] unused [] names [] group \"dev-jane\"\n"
	if got != want {
		t.Errorf("rules:\n%swant:\n%s", got, want)
	}
}
