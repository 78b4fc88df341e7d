package explore_test

import (
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
)

// An operator without the rights that it needs raises one alarm, which names each refused request
// once. The other runs give it all rights, so that its other bugs are found, too.
func TestLacksRights(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "rbac.yaml", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: a}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: a}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: a}
subjects: [{kind: ServiceAccount, name: a, namespace: a}]
`)
	s := twoSecretsScenario(false)
	s.Env = []testenv.Option{testenv.RBAC(dir)}
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true,
		Kinds: []explore.Kind{explore.KillAfter}})
	if err != nil || len(report.Alarms) != 2 {
		t.Fatalf("%v, %v: want alarms about the rights and the Secret", err, report.Alarms)
	}
	rights, secret := report.Alarms[0], report.Alarms[1]
	const marker = "//+kubebuilder:rbac:groups=\"\",resources=secrets,verbs="
	assert.Contains(t, rights.Detail, marker)
	if rights.Oracle != "O12" || rights.Plan.String() != "no faults" ||
		strings.Count(rights.Detail+"\n", " secrets\n") == 0 || !strings.Contains(rights.Detail, "roles: []") {
		t.Errorf("%s\n%s", rights.Plan, rights.Detail)
	}
	for line := range strings.Lines(rights.Detail) {
		if strings.Count(rights.Detail, line) > 1 {
			t.Errorf("%q is there twice", line)
		}
	}
	if !strings.Contains(secret.Detail, "secrets default/web-cert: is missing") {
		t.Errorf("%s\n%s, want the missing Secret", secret.Plan, secret.Detail)
	}
}

// The markers have the groups and subresources of the requests. Caches list and watch.
func TestMarkers(t *testing.T) {
	got := explore.MarkersFor([]string{"list secrets", "apply deployments.apps/status default/a",
		"update deployments.apps default/a", "create deployments.apps default/*"})
	want := []string{"//+kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;update",
		"//+kubebuilder:rbac:groups=apps,resources=deployments/status,verbs=patch",
		`//+kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch`}
	assert.Slice(t, got, want)
}
