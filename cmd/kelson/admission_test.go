package main

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

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
)

const policies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/scale]}]
  validations: [{expression: object.spec.replicas <= 5, messageExpression: "'at most 5 replicas, not ' + string(object.spec.replicas)"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec: {policyName: replicas, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owner}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'owner': 'team-a'}}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: owner}
spec: {policyName: owner}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: secrets}
webhooks:
- name: secrets.kelson.dev
  rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [secrets]}]
  clientConfig: {url: "%s/check", caBundle: %s}
  sideEffects: None
  admissionReviewVersions: [v1]
`

// Policies and a webhook reject and change objects that an unmodified kubectl sends.
func TestAdmissionOfKubectl(t *testing.T) {
	require.Long(t, "takes seconds")
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID,
			Allowed: review.Request.Name != "forbidden", Warnings: []string{"secrets are watched"}}
		if !review.Response.Allowed {
			review.Response.Result = &metav1.Status{Code: http.StatusForbidden, Message: "that name is not allowed"}
		}
		json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(hook.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})

	s := startServer(t, "--in-memory", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	refused := func(want string, args ...string) {
		t.Helper()
		got := command(t, []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + t.TempDir()}, "kubectl", args...)
		if got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("kubectl %s: exit %d, %s\nwant %s", strings.Join(args, " "), got.code, got.stderr, want)
		}
	}
	file := filepath.Join(t.TempDir(), "policies.yaml")
	err := os.WriteFile(file, fmt.Appendf(nil, policies, hook.URL, base64.StdEncoding.EncodeToString(ca)),
		0o600)
	require.NoError(t, err)
	wantContains(t, "apply", kubectl("apply", "-f", file),
		"validatingwebhookconfiguration.admissionregistration.k8s.io/secrets created")

	refused("ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: at most 5 replicas, not 6",
		"create", "deployment", "web", "--image=web", "--replicas=6")
	kubectl("create", "deployment", "web", "--image=web", "--replicas=2")
	wantContains(t, "labels", kubectl("get", "deployment", "web", "--show-labels"), "app=web,owner=team-a")
	refused("at most 5 replicas, not 7", "scale", "deployment", "web", "--replicas=7")

	refused(`admission webhook "secrets.kelson.dev" denied the request: that name is not allowed`, "create", "secret",
		"generic", "forbidden")
	got := command(t, []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + t.TempDir()}, "kubectl", "create", "secret",
		"generic", "fine")
	if got.code != 0 || !strings.Contains(got.stderr, "Warning: secrets are watched") {
		t.Errorf("create a secret: exit %d, %s", got.code, got.stderr)
	}
	kubectl("delete", "-f", file)
	kubectl("scale", "deployment", "web", "--replicas=7")
}

// Invalid flags make the start fail.
func TestAdmissionFlags(t *testing.T) {
	dir := t.TempDir()
	configuration := func(text string) string {
		file := filepath.Join(dir, "admission.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return "--admission-control-config-file=" + file
	}
	for _, test := range []struct{ flag, want string }{
		{"--enable-admission-plugins=Nonsense", `enable-admission-plugins plugin "Nonsense" is unknown`},
		{"--disable-admission-plugins=Nonsense", `disable-admission-plugins plugin "Nonsense" is unknown`},
		{"--admission-control-config-file=" + filepath.Join(dir, "nowhere"),
			"unable to read admission control configuration"},
		{configuration("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: MutatingAdmissionWebhook, configuration: {kind: Nonsense}}]"),
			`couldn't init admission plugin "MutatingAdmissionWebhook"`},
	} {
		got := command(t, nil, built(t, binary), "serve", "--in-memory", "--secure-port=0", test.flag)
		if got.code == 0 || !strings.Contains(got.stderr, test.want) {
			t.Errorf("%s: exit %d, %s\nwant %s", test.flag, got.code, got.stderr, test.want)
		}
	}
}
