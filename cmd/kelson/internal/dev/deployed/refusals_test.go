package deployed

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"kelson.dev/internal/assert"
)

// Explain parses the errors of client-go, as text and as JSON.
func TestRefusals(t *testing.T) {
	m := &Manifests{Manager: &appsv1.Deployment{}}
	m.Manager.Namespace = "shop-system"
	m.Manager.Spec.Template.Spec.ServiceAccountName = "shop"
	const (
		user = "system:serviceaccount:shop-system:shop"
		next = ", or the rule in config/rbac; kelson rights --explore finds all that is missing"
	)
	pods := `pods is forbidden: User "` + user + `" cannot list resource "pods" in API group "" at the cluster scope`
	r := m.NewRefusals()
	for _, test := range []struct{ line, want string }{
		{"Failed to watch: " + pods, "the roles of " + user + ` do not allow it to list pods: add +kubebuilder:rbac:groups="",resources=pods,verbs=list` + next},
		{"Failed to watch again: " + pods, ""},
		{`{"error":"deployments.apps \"web\" is forbidden: User \"` + user + `\" cannot update resource \"deployments/status\" in API group \"apps\" in the namespace \"a\""}`,
			"the roles of " + user + ` do not allow it to update deployments.apps/status: add +kubebuilder:rbac:groups=apps,resources=deployments/status,verbs=update` + next},
		{`forbidden: User "` + user + `" cannot get path "/metrics"`,
			"the roles of " + user + ` do not allow it to get /metrics: add +kubebuilder:rbac:urls=/metrics,verbs=get` + next},
		{`User "alice" cannot list resource "pods" in API group "" at the cluster scope`, ""},
		{`{"level":"info","msg":"Starting workers"}`, ""},
	} {
		assert.Equalf(t, r.Explain(test.line), test.want, "%s", test.line)
	}
	m.Manager.Spec.Template.Spec.ServiceAccountName = ""
	got := m.NewRefusals().user
	assert.Equalf(t, got, "system:serviceaccount:shop-system:default", "a pod without a service account")
}
