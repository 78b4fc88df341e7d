package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"kelson.dev/internal/require"
)

// existingProject is a project in kubebuilder's layout. Its operator depends on its Deployment: on
// arguments, environment variables, a file of a ConfigMap, a file of its image, the certificate of
// its webhook, and the token of its service account, which may only create ConfigMaps. One of its
// samples is broken.
const existingProject = `
-- PROJECT --
version: "3"
layout: [go.kubebuilder.io/v4]
domain: example.com
repo: example.com/shop
-- go.mod --
module example.com/shop
go 1.26
-- Dockerfile --
FROM golang AS build
RUN go build -o manager ./cmd/operator
FROM scratch
COPY --from=build /workspace/manager .
COPY templates /etc/templates
ENTRYPOINT ["/manager"]
-- templates/greeting --
hello from the image
-- cmd/aside/main.go --
package main

func main() { panic("the wrong program") }
-- cmd/operator/main.go --
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	settings, err := os.ReadFile("etc/shop/settings") // relative to the root directory
	must(err)
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	token, err := os.ReadFile(account + "token")
	must(err)
	ca, err := os.ReadFile(account + "ca.crt")
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	api := "https://" + os.Getenv("KUBERNETES_SERVICE_HOST") + ":" + os.Getenv("KUBERNETES_SERVICE_PORT")
	greeting, err := os.ReadFile("/etc/templates/greeting")
	must(err)
	fmt.Println("runs with", os.Args[1:], os.Getenv("NAMESPACE"), string(settings), string(greeting))
	body := []byte("{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"result\"}}")
	req, _ := http.NewRequest("POST", api+"/api/v1/namespaces/default/configmaps", bytes.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+string(token))
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	resp, err := client.Do(req)
	must(err)
	fmt.Println("created:", resp.Status)
	req, _ = http.NewRequest("GET", api+"/api/v1/secrets", nil)
	req.Header.Set("Authorization", "Bearer "+string(token))
	resp, err = client.Do(req)
	must(err)
	refusal, err := io.ReadAll(resp.Body)
	must(err)
	fmt.Println("secrets:", resp.Status, string(refusal))
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/mutate", func(w http.ResponseWriter, req *http.Request) {
		var review struct{ Request struct{ UID string } }
		json.NewDecoder(req.Body).Decode(&review)
		json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": map[string]any{
			"uid": review.Request.UID, "allowed": true, "patchType": "JSONPatch",
			"patch": base64.StdEncoding.EncodeToString([]byte("[{\"op\": \"add\", \"path\": \"/data\", \"value\": {\"hooked\": \"yes\"}}]")),
		}})
	})
	must(http.ListenAndServeTLS(":PORT", "/tmp/k8s-webhook-server/serving-certs/tls.crt", "/tmp/k8s-webhook-server/serving-certs/tls.key", nil))
}
-- config/default/kustomization.yaml --
namespace: shop-system
resources: [../manager, all.yaml]
patches:
- path: patch.yaml
-- config/default/patch.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec: {template: {spec: {containers: [{name: manager, args: [--patched]}]}}}
-- config/default/all.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Shop, plural: shops, singular: shop, listKind: ShopList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: rbac.authorization.k8s.io/v1beta1
kind: ClusterRole
metadata: {name: old}
---
apiVersion: monitoring.example.com/v1
kind: Monitor
metadata: {name: none}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager}
subjects: [{kind: ServiceAccount, name: manager, namespace: system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: system}
data: {settings: fast}
---
apiVersion: v1
kind: Service
metadata: {name: webhook, namespace: system}
spec: {ports: [{port: 443, targetPort: PORT}], selector: {app: manager}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: hooks, annotations: {cert-manager.io/inject-ca-from: shop-system/serving}}
webhooks:
- name: a.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  objectSelector: {matchLabels: {hook: "true"}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  clientConfig: {service: {name: webhook, namespace: system, path: /mutate}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: serving, namespace: system}
spec: {dnsNames: [webhook.shop-system.svc], secretName: serving}
-- config/manager/kustomization.yaml --
resources: [manager.yaml]
-- config/manager/manager.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec:
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec:
      serviceAccountName: manager
      containers:
      - name: manager
        image: controller:latest
        command: [/manager]
        env: [{name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]
        readinessProbe: {httpGet: {path: /readyz, port: PORT, scheme: HTTPS}}
        volumeMounts:
        - {name: cert, mountPath: /tmp/k8s-webhook-server/serving-certs, readOnly: true}
        - {name: settings, mountPath: /etc/shop}
      volumes:
      - {name: cert, secret: {secretName: serving}}
      - {name: settings, configMap: {name: settings}}
-- config/samples/broken.yaml --
kind: [
-- config/samples/other.yaml --
apiVersion: example.com/v1
kind: My-shop
metadata: {name: other}
-- config/samples/sample.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: sample, labels: {hook: "true"}}
`

// writeExisting writes existingProject, with replaced texts, and returns its folder.
func writeExisting(t *testing.T, replaced ...string) (dir string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	dir = t.TempDir()
	replacer := strings.NewReplacer(append(replaced, "SERVICE_PORT", "SERVICE_PORT", "PORT", port)...)
	for _, f := range txtar.Parse([]byte(existingProject)).Files {
		name := filepath.Join(dir, f.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(replacer.Replace(string(f.Data))), 0o644))
	}
	return dir
}

// devExisting runs kelson dev until the webhook has changed the sample, and returns its output.
func devExisting(t *testing.T, dir string, args ...string) string {
	t.Helper()
	kelson := built(t, binary) // takes minutes on a busy machine
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, kelson, append([]string{"dev", dir, "--generate=false", "--timeout", "100s",
		"--until", "configmap/sample:{.data.hooked}=yes"}, args...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	said, err := cmd.CombinedOutput()
	if strings.Contains(string(said), "runs without the arguments and volumes") {
		t.Skip("this machine cannot run pods with volumes")
	}
	require.NoErrorf(t, err, "\n%s", said)
	return string(said)
}

// kelson dev runs the operator of an existing project as its Deployment describes.
func TestDevExistingProject(t *testing.T) {
	require.Long(t, "builds an operator")
	dir := writeExisting(t)
	log := filepath.Join(t.TempDir(), "audit.log")
	require.NoError(t, os.WriteFile(log, []byte("the log of an earlier run"), 0o600))
	said := devExisting(t, dir, "--audit-log", log)
	const user = "system:serviceaccount:shop-system:manager"
	for _, part := range []string{"runs with [--patched] shop-system fast hello from the image", "created: 201", "secrets: 403",
		"do not allow it to list secrets: add +kubebuilder:rbac:groups=\"\",resources=secrets,verbs=list",
		"broken.yaml: error converting YAML", "continuing with the 2 other samples",
		"not applied: ClusterRole of rbac.authorization.k8s.io/v1beta1: the cluster serves rbac.authorization.k8s.io/v1",
		"not applied: Monitor.monitoring.example.com, which the cluster does not serve: --definitions",
		"not applied: My-shop.example.com, which the cluster does not serve: the group has Shop",
		"the operator's image has templates at /etc/templates",
		"issued 1 certificates", "kelson rights " + dir + " --audit-log " + log + " --user " + user} {
		if !strings.Contains(said, part) {
			t.Errorf("the output lacks %q\n%s", part, said)
		}
	}
	// The project has no markers, and config/default binds a role.
	got := command(t, []string{"GOWORK=off"}, built(t, binary), "rights", dir, "--audit-log", log, "--user", user)
	if got.code != 1 || !strings.Contains(got.stdout, "missing: list secrets\n") ||
		!strings.Contains(got.stdout, "2 requests, which need 2 rules: 1 missing") {
		t.Errorf("rights: %+v", got)
	}
}

// If config/default deploys no certificate for the webhooks, kelson dev issues one when the
// operator has not found it, and the cluster calls the webhooks.
func TestDevWithoutCertificate(t *testing.T) {
	require.Long(t, "builds an operator")
	const certificate = `---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: serving, namespace: system}
spec: {dnsNames: [webhook.shop-system.svc], secretName: serving}
`
	dir := writeExisting(t, certificate, "",
		"      - {name: cert, secret: {secretName: serving}}\n", "",
		"        - {name: cert, mountPath: /tmp/k8s-webhook-server/serving-certs, readOnly: true}\n", "")
	said := devExisting(t, dir)
	for _, part := range []string{"exited with code 1", "config/default deploys no certificate for the webhooks",
		"the cluster calls them with a certificate of this run", "enable ../webhook and ../certmanager"} {
		if !strings.Contains(said, part) {
			t.Errorf("the output lacks %q\n%s", part, said)
		}
	}
}
