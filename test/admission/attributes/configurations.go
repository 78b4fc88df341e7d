package attributes

import (
	"encoding/json"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hook is a webhook of both phases.
type hook struct {
	name  string
	rules func(own string) []admissionregistrationv1.Rule
}

var everything = admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"},
	Resources: []string{"*/*"}}

// hooks are the webhooks of each phase.
var hooks = []hook{
	{"all", func(string) []admissionregistrationv1.Rule { return []admissionregistrationv1.Rule{everything} }},
	// It matches one version of kinds that have several, so that admission converts the objects of
	// requests in another version.
	{"converted", func(own string) []admissionregistrationv1.Rule {
		return []admissionregistrationv1.Rule{
			{APIGroups: []string{"autoscaling"}, APIVersions: []string{"v1"},
				Resources: []string{"horizontalpodautoscalers/*"}},
			{APIGroups: []string{own + ".example.com"}, APIVersions: []string{"v2"}, Resources: []string{"*/*"}},
			{APIGroups: []string{"events.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"events"}},
		}
	}},
	// It has the most common selector, which matches the namespaces of the requests.
	{"others", func(string) []admissionregistrationv1.Rule { return []admissionregistrationv1.Rule{everything} }},
}

// Configuration is a kind of configuration of webhooks.
type Configuration struct {
	phase string
	Kind  string
	Path  string // of the collection
}

// Configurations are the two kinds.
var Configurations = []Configuration{
	{"mutate", "MutatingWebhookConfiguration", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"},
	{"validate", "ValidatingWebhookConfiguration",
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"},
}

// Reached reports whether all webhooks that match a ConfigMap were called since the last Take.
func (r *Recorder) Reached() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range Configurations {
		for _, name := range []string{"all", "others"} {
			if !slices.ContainsFunc(r.calls, func(c Call) bool { return c.Path == "/"+of.phase+"/"+name }) {
				return false
			}
		}
	}
	return true
}

// Configuration returns an object of Configurations[i] that makes the server call the recorder for
// the requests of User.
func (r *Recorder) Configuration(i int, own string) string {
	of := Configurations[i]
	none := admissionregistrationv1.SideEffectClassNone
	// mutating webhooks have the same fields, and more
	var webhooks []admissionregistrationv1.ValidatingWebhook
	for _, h := range hooks {
		url := r.URL() + "/" + of.phase + "/" + h.name
		hook := admissionregistrationv1.ValidatingWebhook{
			Name: h.name + ".example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: r.CA, URL: &url},
			MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: "user", Expression: "request.userInfo.username == '" + User + "'"}},
		}
		for _, rule := range h.rules(own) {
			hook.Rules = append(hook.Rules, admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}, Rule: rule,
			})
		}
		if h.name == "others" {
			hook.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn,
					Values: []string{"kube-system"}},
			}}
		}
		webhooks = append(webhooks, hook)
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": of.Kind, "metadata": map[string]any{"name": own},
		"webhooks": webhooks,
	})
	if err != nil {
		panic(fmt.Sprintf("encode %s: %v", of.Kind, err)) // these types can be encoded
	}
	return string(body)
}
