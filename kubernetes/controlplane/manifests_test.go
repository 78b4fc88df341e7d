package controlplane_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// pluginConfig is the configuration of an admission plugin with a folder of manifests.
func pluginConfig(kind, dir string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"apiserver.config.k8s.io/v1","kind":%q,"staticManifestsDir":%q}`, kind, dir)
}

// staticPolicy returns manifests of a policy for config maps and policies, and of its binding.
func staticPolicy(name, expression string) string {
	return `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
    - {apiGroups: [admissionregistration.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [validatingadmissionpolicies]}
  validations: [{expression: "` + expression + `"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ` + name + `}
spec: {policyName: ` + name + `, validationActions: [Deny]}
`
}

// Policies of a folder apply from the start, also to requests for policies. Changes of the folder
// apply, except invalid ones.
func TestPoliciesOfManifests(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		// The server must not see a half-written file.
		next := filepath.Join(dir, "next")
		require.NoError(t, os.WriteFile(next, []byte(text), 0o600))
		require.NoError(t, os.Rename(next, filepath.Join(dir, "policies.yaml")))
	}
	write(staticPolicy("names.static.k8s.io", "object.metadata.name != 'bad'"))
	mutations := t.TempDir()
	err := os.WriteFile(filepath.Join(mutations, "m.yaml"), []byte(`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owner.static.k8s.io}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'owner': 'team-a'}}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: owner.static.k8s.io}
spec: {policyName: owner.static.k8s.io}
`), 0o600)
	require.NoError(t, err)
	plane := start(t, controlplane.Config{Controllers: controlplane.NoControllers{},
		Admission: controlplane.Admission{Plugins: map[string][]byte{
			"ValidatingAdmissionPolicy": pluginConfig("ValidatingAdmissionPolicyConfiguration", dir),
			"MutatingAdmissionPolicy":   pluginConfig("MutatingAdmissionPolicyConfiguration", mutations),
		}}})
	const maps = "/api/v1/namespaces/default/configmaps?dryRun=All"
	create := func(name string) (int, string) {
		return ask(t, plane, root, "POST", maps, `{"metadata":{"name":"`+name+`"}}`)
	}
	if code, answer := create("good"); code != http.StatusCreated || !strings.Contains(answer, `"owner":"team-a"`) {
		t.Errorf("%d %s", code, answer)
	}
	if code, answer := create("bad"); code != http.StatusUnprocessableEntity ||
		!strings.Contains(answer, "names.static.k8s.io") {
		t.Errorf("%d %s", code, answer)
	}
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	policy := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"bad"},"spec":{"validations":[{"expression":"true"}],
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["pods"]}]}}}`
	if code, answer := ask(t, plane, root, "POST", policies, policy); code != http.StatusUnprocessableEntity ||
		!strings.Contains(answer, "names.static.k8s.io") {
		t.Errorf("a policy of a folder does not apply to policies: %d %s", code, answer)
	}
	if code, answer := ask(t, plane, root, "GET", policies, ""); code != http.StatusOK ||
		strings.Contains(answer, "static.k8s.io") {
		t.Errorf("policies of a folder are stored: %d %s", code, answer)
	}

	write("kind: Nothing") // the policies stay in effect
	write(staticPolicy("names.static.k8s.io", "object.metadata.name != 'good'"))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		good, _ := create("good")
		bad, answer := create("bad")
		if good == http.StatusUnprocessableEntity && bad == http.StatusCreated {
			break
		}
		if good == http.StatusCreated && bad == http.StatusCreated {
			t.Fatalf("no policy applies: %s", answer)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the change of the folder does not apply: %d, %d %s", good, bad, answer)
		}
	}
}

// The server calls the webhooks of a folder, also for configurations of webhooks.
func TestWebhooksOfManifests(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: review.Request.Name != "bad"}
		if req.URL.Path == "/mutate" {
			kind := admissionv1.PatchTypeJSONPatch
			review.Response.PatchType, review.Response.Patch = &kind,
				[]byte(`[{"op":"add","path":"/metadata/labels","value":{"owner":"team-a"}}]`)
		}
		json.NewEncoder(w).Encode(&review)
	}))
	defer hook.Close()
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: hook.Certificate().Raw}))
	manifest := func(kind, path, rule string) string {
		dir := t.TempDir()
		text := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"h.static.k8s.io"},"webhooks":[{
			"name":"h.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"` + hook.URL + path + `","caBundle":"` + bundle + `"},
			"rules":[` + rule + `]}]}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, "h.json"), []byte(text), 0o600))
		return dir
	}
	const configMaps = `{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}`
	plane := start(t, controlplane.Config{Controllers: controlplane.NoControllers{},
		Admission: controlplane.Admission{Plugins: map[string][]byte{
			"ValidatingAdmissionWebhook": pluginConfig("WebhookAdmissionConfiguration",
				manifest("ValidatingWebhookConfiguration", "/validate",
					configMaps+`,{"apiGroups":["admissionregistration.k8s.io"],"apiVersions":["v1"],"resources":["*"],"operations":["CREATE"]}`)),
			"MutatingAdmissionWebhook": pluginConfig("WebhookAdmissionConfiguration",
				manifest("MutatingWebhookConfiguration", "/mutate", configMaps)),
		}}})
	const maps = "/api/v1/namespaces/default/configmaps"
	if code, answer := ask(t, plane, root, "POST", maps, `{"metadata":{"name":"good"}}`); code != http.StatusCreated ||
		!strings.Contains(answer, `"owner":"team-a"`) {
		t.Errorf("%d %s", code, answer)
	}
	if code, answer := ask(t, plane, root, "POST", maps, `{"metadata":{"name":"bad"}}`); code != http.StatusBadRequest || !strings.Contains(answer, `admission webhook \"h.example.com\" denied the request`) {
		t.Errorf("%d %s", code, answer)
	}
	const configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	for name, want := range map[string]int{"good": http.StatusCreated, "bad": http.StatusBadRequest} {
		if code, answer := ask(t, plane, root, "POST", configurations,
			`{"metadata":{"name":"`+name+`"}}`); code != want {
			t.Errorf("%s: %d %s", name, code, answer)
		}
	}
}

// A server whose manifests are invalid does not start.
func TestInvalidManifests(t *testing.T) {
	for _, test := range []struct{ name, plugin, kind, text, want string }{
		{"name", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", staticPolicy("names", "true"),
			`must have a name ending with ".static.k8s.io"`},
		{"expression", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration",
			staticPolicy("names.static.k8s.io", "nonsense ("), "compilation failed"},
		{"kind", "ValidatingAdmissionWebhook", "WebhookAdmissionConfiguration",
			staticPolicy("names.static.k8s.io", "true"), "unsupported resource type"},
		{"service", "MutatingAdmissionWebhook", "WebhookAdmissionConfiguration", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration",
			"metadata":{"name":"h.static.k8s.io"},"webhooks":[{"name":"h.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
			"clientConfig":{"service":{"name":"a","namespace":"b"}}}]}`, "clientConfig.service is not supported"},
		{"syntax", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyConfiguration", "{", "error loading"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(test.text), 0o600))
			plane, err := controlplane.Start(t.Context(), controlplane.Config{Admission: controlplane.Admission{
				Plugins: map[string][]byte{test.plugin: pluginConfig(test.kind, dir)}}})
			if err == nil {
				plane.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.plugin) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, test.want)
			}
		})
	}
}
