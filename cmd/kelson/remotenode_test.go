package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/process"
)

// startRemoteNode registers a node that runs in this test and that the server reaches over TLS
// only, as it reaches a kubelet. The node accepts only clients whose certificate the server's
// authority signed; requests counts them. authority signs the node's serving certificate.
func startRemoteNode(t *testing.T, s *server, kubectl func(args ...string) string,
	authority *pki.Authority) (requests *atomic.Int64) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	runtime, err := process.New(process.Config{Root: t.TempDir(), Unconfined: true})
	require.NoError(t, err)
	agent, err := node.NewAgent(node.AgentConfig{Config: cfg, Name: "localhost", Runtime: runtime})
	require.NoError(t, err)

	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(cfg.CAData)
	requests = new(atomic.Int64)
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		got := req.TLS.PeerCertificates[0].Subject.CommonName
		assert.Equalf(t, got, "kube-apiserver-kubelet-client", "the server called the kubelet as")
		requests.Add(1)
		agent.ServeHTTP(w, req)
	}))
	serving, err := authority.Serving("localhost")(nil)
	require.NoError(t, err)
	kubelet.TLS = &tls.Config{Certificates: []tls.Certificate{*serving}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert}
	kubelet.StartTLS()

	done := make(chan error, 1)
	go func() { done <- agent.Run(t.Context()) }()
	t.Cleanup(func() {
		kubelet.Close()
		<-done
	})
	require.Eventually(t, "the node registers", func() bool { return kubectl("get", "nodes", "-o", "name") != "" })
	port := kubelet.Listener.Addr().(*net.TCPAddr).Port
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": port}}}})
	require.NoError(t, err)
	kubectl("patch", "node", "localhost", "--subresource=status", "--type=merge", "-p", string(patch))
	kubectl("wait", "node/localhost", "--for=condition=Ready", "--timeout=30s")
	return requests
}

// The server reaches containers on a node that another process runs.
func TestKubectlEntersContainersOfKubelets(t *testing.T) {
	require.Long(t, "takes seconds")
	authority, err := pki.NewAuthority("kubelets")
	require.NoError(t, err)
	ca := filepath.Join(t.TempDir(), "kubelets.crt")
	require.NoError(t, os.WriteFile(ca, authority.PEM, 0o600))
	s := startServer(t, "--in-memory", "--node=none", "--kubelet-certificate-authority", ca, "--kubeconfig",
		filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	requests := startRemoteNode(t, s, kubectl, authority)
	port := freePort(t)
	startWebPod(t, kubectl, port)
	enterContainers(t, s, port)
	t.Run("proxy", func(t *testing.T) {
		const at = "/api/v1/nodes/https:localhost:%s/proxy/pods"
		stderr := kubectlRun(t, []string{"KUBECONFIG=" + s.kubeconfig}, "", 1, "get", "--raw",
			fmt.Sprintf(at, "")).stderr
		wantContains(t, "the kubelet's address is loopback", stderr, "address not allowed")
	})
	t.Run("logs", func(t *testing.T) {
		kubectl("run", "talker", "--image=none", "--restart=Never", "--command", "--", "sh", "-c", "echo one; echo two")
		kubectl("wait", "pod/talker", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s")
		wantContains(t, "log", kubectl("logs", "-f", "talker"), "one\ntwo\n")
		wantContains(t, "tail", kubectl("logs", "--tail=1", "talker"), "two\n")
	})
	if requests.Load() == 0 {
		t.Error("the server did not call the kubelet")
	}
}

// Kubelets whose certificate another authority signed are refused, unless the client of a log
// accepts that.
func TestCertificatesOfKubeletsAreVerified(t *testing.T) {
	require.Long(t, "takes seconds")
	own, err := pki.NewAuthority("own")
	require.NoError(t, err)
	other, err := pki.NewAuthority("other")
	require.NoError(t, err)
	ca := filepath.Join(t.TempDir(), "kubelets.crt")
	require.NoError(t, os.WriteFile(ca, own.PEM, 0o600))
	s := startServer(t, "--in-memory", "--node=none", "--kubelet-certificate-authority", ca, "--kubeconfig",
		filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	startRemoteNode(t, s, kubectl, other)
	kubectl("run", "talker", "--image=none", "--restart=Never", "--command", "--", "sh", "-c", "echo secret")
	kubectl("wait", "pod/talker", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s")

	env := []string{"KUBECONFIG=" + s.kubeconfig}
	refused := kubectlRun(t, env, "", 1, "logs", "talker")
	wantContains(t, "logs", refused.stderr, "certificate signed by unknown authority")
	assert.Equalf(t, refused.stdout, "", "the log was")
	wantContains(t, "exec", kubectlRun(t, env, "", 1, "exec", "talker", "--", "ls").stderr, "cannot exec")
	wantContains(t, "accepted", kubectlRun(t, env, "", 0, "logs", "--insecure-skip-tls-verify-backend",
		"talker").stdout, "secret\n")
}
