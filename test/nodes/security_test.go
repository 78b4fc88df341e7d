package nodes_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// startServer starts kelson serve, which accepts machines that join, without a node. It needs no
// root rights.
func startServer(t *testing.T) (*cluster, *rest.Config) {
	t.Helper()
	kelson := os.Getenv("KELSON")
	if kelson == "" {
		t.Skip("KELSON names no program: run make nodes")
	}
	dir := t.TempDir()
	c := &cluster{T: t, kelson: kelson, kubeconfig: filepath.Join(dir, "kubeconfig")}
	cmd := exec.Command(kelson, "serve", "--in-memory", "--kubeconfig", c.kubeconfig, "--secure-port=0", "--node=none",
		"--enable-bootstrap-token-auth")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		assert.NoErrorf(t, cmd.Wait(), "kelson serve")
	})
	c.eventually("the server answers", 3*time.Minute, func() bool { return c.try("get", "--raw", "/readyz") == "ok" })
	cfg, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	require.NoError(t, err)
	return c, cfg
}

// probe is one request.
type probe struct{ verb, path, body string }

// send returns the error of a request.
func (p probe) send(t *testing.T, cfg *rest.Config) error {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request := client.CoreV1().RESTClient().Verb(p.verb).RequestURI(p.path)
	if p.body != "" {
		contentType := "application/json"
		if p.verb == http.MethodPatch {
			contentType = string(types.MergePatchType)
		}
		request = request.SetHeader("Content-Type", contentType).Body([]byte(p.body))
	}
	_, err = request.DoRaw(ctx)
	return err
}

// twoNodes has two nodes with a pod each, and a Secret for each pod.
const twoNodes = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: here}}
- {apiVersion: v1, kind: Node, metadata: {name: other}}
- {apiVersion: v1, kind: Secret, metadata: {name: on-here, namespace: default}}
- {apiVersion: v1, kind: Secret, metadata: {name: on-other, namespace: default}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: on-other, namespace: default}}
- apiVersion: v1
  kind: Pod
  metadata: {name: on-here, namespace: default}
  spec:
    nodeName: here
    containers: [{name: c, image: i, envFrom: [{secretRef: {name: on-here}}]}]
- apiVersion: v1
  kind: Pod
  metadata: {name: on-other, namespace: default}
  spec:
    nodeName: other
    containers: [{name: c, image: i, envFrom: [{secretRef: {name: on-other}}, {configMapRef: {name: on-other}}]}]
- {apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: other, namespace: kube-node-lease}, spec: {holderIdentity: other}}
- {apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: other}, spec: {drivers: []}}
`

// A node cannot read or write objects of another node with any verb.
func TestAnotherNode(t *testing.T) {
	c, cfg := startServer(t)
	// Pods need the service account, which a controller creates.
	c.eventually("the objects are created", 3*time.Minute, func() bool {
		out, err := c.run(twoNodes, "apply", "-f", "-")
		if err != nil {
			t.Logf("apply: %s", out)
		}
		return err == nil
	})
	node := rest.CopyConfig(cfg)
	node.Impersonate = rest.ImpersonationConfig{UserName: "system:node:here", Groups: []string{"system:nodes"}}
	const core, pods = "/api/v1", "/api/v1/namespaces/default/pods"
	allowed := []probe{
		{"GET", core + "/nodes/here", ""},
		{"PATCH", core + "/nodes/here/status", `{"status":{"conditions":[]}}`},
		{"PATCH", pods + "/on-here/status", `{"status":{"phase":"Running"}}`},
		{"GET", core + "/namespaces/default/secrets/on-here", ""},
		{"POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
			`{"metadata":{"name":"here"},"spec":{"holderIdentity":"here"}}`},
		{"POST", "/apis/storage.k8s.io/v1/csinodes", `{"metadata":{"name":"here"},"spec":{"drivers":[]}}`},
		{"DELETE", pods + "/on-here", `{"gracePeriodSeconds":0}`},
	}
	for _, p := range allowed {
		// The authorizer follows the pods.
		c.eventually(p.verb+" "+p.path+" as its own node", 3*time.Minute, func() bool { return p.send(t, node) == nil })
	}
	const (
		object = `{"metadata":{"name":"other"}}`
		label  = `{"metadata":{"labels":{"a":"b"}}}`
		pod    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"on-other","annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"other","containers":[{"name":"c","image":"i"}]}}`
	)
	var forbidden []probe
	resource := func(collection, name, body string, subresources ...string) {
		at := collection + "/" + name
		forbidden = append(forbidden, probe{"POST", collection, body}, probe{"PUT", at, body},
			probe{"PATCH", at, label}, probe{"DELETE", at, ""}, probe{"DELETE", collection, ""})
		for _, s := range subresources {
			forbidden = append(forbidden, probe{"PUT", at + "/" + s, body}, probe{"PATCH", at + "/" + s, label})
		}
	}
	resource(core+"/nodes", "other", object, "status")
	resource(pods, "on-other", pod, "status", "ephemeralcontainers", "resize")
	resource("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", "other",
		`{"metadata":{"name":"other"},"spec":{"holderIdentity":"other"}}`)
	resource("/apis/storage.k8s.io/v1/csinodes", "other", `{"metadata":{"name":"other"},"spec":{"drivers":[]}}`)
	resource(core+"/namespaces/default/secrets", "on-other", `{"metadata":{"name":"on-other"}}`)
	resource(core+"/namespaces/default/configmaps", "on-other", `{"metadata":{"name":"on-other"}}`)
	resource(core+"/namespaces/default/services", "s", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`)
	resource("/apis/rbac.authorization.k8s.io/v1/clusterroles", "r", `{"metadata":{"name":"r"}}`)
	resource("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "b",
		`{"metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`)
	forbidden = append(forbidden,
		probe{"GET", core + "/namespaces/default/secrets/on-other", ""},
		probe{"GET", core + "/namespaces/default/secrets", ""},
		probe{"GET", core + "/secrets?watch=true", ""},
		probe{"GET", core + "/namespaces/default/configmaps/on-other", ""},
		probe{"GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/other", ""},
		probe{"GET", "/apis/storage.k8s.io/v1/csinodes/other", ""},
		probe{"GET", core + "/nodes/other/proxy/pods", ""},
		probe{"GET", pods + "/on-other/log", ""},
		probe{"POST", pods + "/on-other/exec?command=id", ""},
		probe{"POST", pods + "/on-other/eviction",
			`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"on-other"}}`},
		probe{"POST", pods + "/on-other/binding", `{"target":{"kind":"Node","name":"here"}}`},
		probe{"POST", core + "/namespaces/default/serviceaccounts/default/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["a"]}}`},
		probe{"PATCH", core + "/nodes/here", `{"metadata":{"labels":{"node-restriction.kubernetes.io/a":"b"}}}`},
		probe{"PATCH", core + "/nodes/here", `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`},
		probe{"DELETE", core + "/nodes/here", ""},
	)
	for _, p := range forbidden {
		if err := p.send(t, node); !apierrors.IsForbidden(err) {
			t.Errorf("as node here, %s %s: %v, want forbidden", p.verb, p.path, err)
		}
	}
	for _, left := range []string{"node/other", "pod/on-other", "secret/on-other", "configmap/on-other",
		"csinode/other"} {
		c.kubectl("get", left)
	}
}

// A client with a bootstrap token can only request the certificate of a kubelet.
func TestStolenToken(t *testing.T) {
	c, cfg := startServer(t)
	token := strings.TrimSpace(c.kubectlOf("token", "create", "--token-only"))
	thief := rest.AnonymousClientConfig(cfg)
	thief.BearerToken = token
	err := (probe{"GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", ""}).send(t, thief)
	assert.NoErrorf(t, err, "the token is not accepted")
	for _, path := range []string{
		"/api/v1/nodes", "/api/v1/pods", "/api/v1/secrets", "/api/v1/configmaps", "/api/v1/namespaces",
		"/api/v1/services", "/api/v1/namespaces/kube-system/secrets",
		"/apis/apps/v1/deployments", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
	} {
		for _, p := range []probe{{"GET", path, ""}, {"GET", path + "?watch=true", ""}, {"POST", path, "{}"},
			{"DELETE", path, ""}, {"GET", path + "/x", ""}, {"PUT", path + "/x", "{}"}, {"PATCH", path + "/x", "{}"},
			{"DELETE", path + "/x", ""}} {
			if strings.HasSuffix(path, "/secrets") && p.verb == http.MethodPost ||
				!strings.Contains(path, "/namespaces/") {
				switch path {
				case "/api/v1/pods", "/api/v1/secrets", "/api/v1/configmaps", "/api/v1/services",
					"/apis/apps/v1/deployments":
					if p.verb != http.MethodGet || strings.HasSuffix(p.path, "/x") {
						continue // only the list in all namespaces has this path
					}
				}
			}
			if err := p.send(t, thief); !apierrors.IsForbidden(err) {
				t.Errorf("with the token, %s %s: %v, want forbidden", p.verb, p.path, err)
			}
		}
	}
	// The controller does not approve the client's requests for other certificates.
	for _, r := range []struct{ name, signer, user, group, usage string }{
		{"admin", "kubernetes.io/kube-apiserver-client", "admin", "system:masters", "client auth"},
		{"masters", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:x", "system:masters", "client auth"},
		{"user", "kubernetes.io/kube-apiserver-client-kubelet", "admin", "system:nodes", "client auth"},
		{"serving", "kubernetes.io/kubelet-serving", "system:node:x", "system:nodes", "server auth"},
		{"node", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:x", "system:nodes", "client auth"},
	} {
		body, err := json.Marshal(map[string]any{
			"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
			"metadata": map[string]any{"name": r.name},
			"spec": map[string]any{"signerName": r.signer, "usages": []string{"digital signature", r.usage},
				"request": certificateRequest(t, r.user, r.group)},
		})
		require.NoError(t, err)
		if err := (probe{"POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", string(body)}).send(t,
			thief); err != nil && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("request %s: %v", r.name, err)
		}
	}
	// The last request is for the certificate of a kubelet. When that is issued, the controller has
	// seen all requests.
	issued := func(name string) string {
		return c.try("get", "certificatesigningrequest", name, "-o",
			"jsonpath={.status.certificate}{.status.conditions[*].type}")
	}
	c.eventually("the certificate of a node is issued", 3*time.Minute, func() bool {
		return strings.Contains(issued("node"), "Approved")
	})
	for _, name := range []string{"admin", "masters", "user", "serving"} {
		if got := issued(name); strings.Contains(got, "Approved") {
			t.Errorf("the request %s is approved: %s", name, got)
		}
	}
	approve := probe{"PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/admin/approval", "{}"}
	if err := approve.send(t, thief); !apierrors.IsForbidden(err) {
		t.Errorf("approve its own request: %v, want forbidden", err)
	}
}

// kubectlOf runs another command of kelson on the cluster.
func (c *cluster) kubectlOf(args ...string) string {
	c.Helper()
	out, err := exec.Command(c.kelson, append(args, "--kubeconfig", c.kubeconfig)...).Output()
	require.NoErrorf(c, err, "kelson %v", args)
	return string(out)
}

// certificateRequest returns the PEM of a request, in base64.
func certificateRequest(t *testing.T, user, group string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: []string{group}}}, key)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// Proxies do not connect to loopback and link-local addresses, which belong to the server's
// machine.
func TestProxiesRefuseLocalAddresses(t *testing.T) {
	c, cfg := startServer(t)
	c.eventually("the objects are created", 3*time.Minute, func() bool {
		_, err := c.run(twoNodes, "apply", "-f", "-")
		return err == nil
	})
	for _, address := range []string{"127.0.0.1", "169.254.169.254", "::1", "fe80::1", "0.0.0.0"} {
		node := corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}
		node.DaemonEndpoints.KubeletEndpoint.Port = 9
		for _, set := range []struct {
			path   string
			status any
		}{
			{"/api/v1/nodes/other/status", node},
			{"/api/v1/namespaces/default/pods/on-other/status",
				corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}}},
		} {
			body, err := json.Marshal(map[string]any{"status": set.status})
			require.NoError(t, err)
			err = (probe{"PATCH", set.path, string(body)}).send(t, cfg)
			require.NoErrorf(t, err, "set %s", address)
		}
		for _, path := range []string{"/api/v1/nodes/other/proxy/", "/api/v1/nodes/other:9/proxy/",
			"/api/v1/namespaces/default/pods/on-other/proxy/", "/api/v1/namespaces/default/pods/on-other:9/proxy/"} {
			if err := (probe{"GET", path, ""}).send(t, cfg); !apierrors.IsBadRequest(err) &&
				!apierrors.IsForbidden(err) {
				t.Errorf("%s with the address %s: %v, want a refusal", path, address, err)
			}
		}
		slice := `{"metadata":{"name":"aimed","labels":{"kubernetes.io/service-name":"aimed"}},"addressType":"IPv4","endpoints":[{"addresses":["` + address + `"]}],"ports":[{"port":80}]}`
		if err := (probe{"POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice}).send(t,
			cfg); !apierrors.IsInvalid(err) {
			t.Errorf("an EndpointSlice with the address %s: %v, want invalid", address, err)
		}
	}
}
