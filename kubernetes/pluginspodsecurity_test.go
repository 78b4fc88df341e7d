package kubernetes_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kelson.dev/kubernetes/apitest"
	"kelson.dev/kubernetes/controlplane"
)

func start(t *testing.T, config string) *apitest.Plane {
	t.Helper()
	cfg := controlplane.Config{}
	cfg.Admission.Disable = []string{"ServiceAccount"} // its volumes are not what is tested
	if config != "" {
		cfg.Admission.Plugins = map[string][]byte{"PodSecurity": []byte(config)}
	}
	plane := startPlane(t, cfg)
	return &apitest.Plane{Client: &http.Client{Transport: plane.Transport()}}
}

func namespace(name, labels string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{%s}}}`, name, labels)
}

const (
	privileged = `{"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]}`
	restricted = `{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"c","image":"i",
		"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}`
)

func standardsPod(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":%s}`, name, spec)
}

func deployment(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":%s}}}`, name, spec)
}

// warned sends a request and checks the status code and the text of the warning.
func warned(t *testing.T, p *apitest.Plane, code int, method, path, body, warning string, header ...string) {
	t.Helper()
	resp := p.Do(t, method, path, body, header...)
	resp.Body.Close()
	got := strings.Join(resp.Header["Warning"], "\n")
	if resp.StatusCode != code || (warning == "") != (got == "") || !strings.Contains(got, warning) {
		t.Errorf("%s %s: %d %s, want %d %s", method, path, resp.StatusCode, got, code, warning)
	}
}

// The labels of a namespace select the level that is enforced for Pods and the level that causes
// warnings. Workloads whose Pods would violate it are admitted with a warning.
func TestByLabels(t *testing.T) {
	p := start(t, "")
	p.Want(t, 201, "POST", "/api/v1/namespaces/default/pods", standardsPod("free", privileged))
	p.Want(t, 201, "POST", "/api/v1/namespaces",
		namespace("strict", `"pod-security.kubernetes.io/enforce":"restricted"`))
	const pods = "/api/v1/namespaces/strict/pods"
	status := p.Want(t, 403, "POST", pods, standardsPod("a", privileged))
	if message := fmt.Sprint(status["message"]); !strings.Contains(message,
		`violates PodSecurity "restricted:latest": privileged (container "c" must not set securityContext.privileged=true)`) {
		t.Error(message)
	}
	p.Want(t, 201, "POST", pods, standardsPod("a", restricted))
	p.Want(t, 403, "PATCH", pods+"/a/ephemeralcontainers",
		`{"spec":{"ephemeralContainers":[{"name":"e","image":"i","securityContext":{"privileged":true}}]}}`,
		"Content-Type: application/strategic-merge-patch+json")
	// Workloads that create pods are admitted with a warning.
	warned(t, p, 201, "POST", "/apis/apps/v1/namespaces/strict/deployments", deployment("d", privileged),
		"would violate PodSecurity")
	warned(t, p, 201, "POST", "/apis/apps/v1/namespaces/strict/deployments", deployment("e", restricted), "")

	p.Want(t, 201, "POST", "/api/v1/namespaces", namespace("told", `"pod-security.kubernetes.io/warn":"baseline"`))
	warned(t, p, 201, "POST", "/apis/apps/v1/namespaces/told/deployments", deployment("d", privileged),
		`would violate PodSecurity \"baseline:latest\"`)
	warned(t, p, 201, "POST", "/api/v1/namespaces/told/pods", standardsPod("a", privileged),
		`would violate PodSecurity \"baseline:latest\"`)
	warned(t, p, 201, "POST", "/api/v1/namespaces/told/pods", standardsPod("b", restricted), "")

	p.Want(t, 422, "POST", "/api/v1/namespaces", namespace("wrong", `"pod-security.kubernetes.io/enforce":"nonsense"`))
	warned(t, p, 200, "PATCH", "/api/v1/namespaces/told",
		`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`,
		`existing pods in namespace \"told\" violate the new PodSecurity enforce level \"baseline:latest\"`, merge)
	p.Want(t, 403, "POST", "/api/v1/namespaces/told/pods", standardsPod("c", privileged))
}

// The configuration sets a default level and exempt namespaces. An unknown level is refused at the
// start.
func TestConfiguration(t *testing.T) {
	p := start(t, `
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline}
exemptions: {namespaces: [kube-system], runtimeClasses: [vm]}
`)
	p.Want(t, 403, "POST", "/api/v1/namespaces/default/pods", standardsPod("a", privileged))
	p.Want(t, 201, "POST", "/api/v1/namespaces/kube-system/pods", standardsPod("a", privileged))
	cfg := controlplane.Config{}
	cfg.Admission.Plugins = map[string][]byte{"PodSecurity": []byte(
		"apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: nonsense}\n")}
	if plane, err := controlplane.Start(t.Context(), cfg); err == nil {
		plane.Stop()
		t.Error("want an error for an unknown level")
	}
}
