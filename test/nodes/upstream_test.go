package nodes_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/require"
	"kelson.dev/test/child"
)

// The same operator runs as pods on a cluster of kube-apiserver, Kubernetes' controller manager and
// scheduler, which kelson-node joins.
func TestOperatorWithWebhooksOnKubeAPIServer(t *testing.T) { operatorWithWebhooks(startUpstream(t)) }

// startUpstream starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler, joins this
// machine with kelson-node, and waits until the node is ready. Everything is removed at the end of
// the test.
func startUpstream(t *testing.T) *cluster {
	t.Helper()
	kelson, node := programs(t)
	bin := filepath.Dir(kelson)
	program := func(name string) string {
		file := filepath.Join(bin, name)
		if _, err := os.Stat(file); err != nil {
			t.Skipf("run make nodes-kube-apiserver: %v", err)
		}
		return file
	}
	etcd, apiserver := program("peers/etcd"), program("peers/kube-apiserver")
	manager, scheduler := program("components/kube-controller-manager"), program("components/kube-scheduler")
	images := writeImages(t)
	dir, err := os.MkdirTemp("", "kelson-nodes-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := func(name string) string { return filepath.Join(dir, name) }
	c := &cluster{T: t, kelson: kelson, kubeconfig: file("kubeconfig"), log: file("log")}
	log, err := os.Create(c.log)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			content, _ := os.ReadFile(c.log)
			t.Logf("end of the log of all processes:\n%s", content[max(0, len(content)-20000):])
		}
	})
	run := func(name string, args ...string) *os.Process {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait() // the components have exit codes of their own
		})
		return cmd.Process
	}
	control := func(name string, args ...string) { c.server = append(c.server, run(name, args...)) }
	var ports [3]string
	for i := range ports {
		ports[i], err = child.FreePort()
		require.NoError(t, err)
	}
	address := machineAddress(t)
	url := "https://" + address + ":" + ports[2]
	upstreamKeys(t, dir, url, address)
	c.began = time.Now()
	control(etcd, "--data-dir", file("etcd"), "--listen-client-urls", "http://127.0.0.1:"+ports[0],
		"--advertise-client-urls", "http://127.0.0.1:"+ports[0],
		"--listen-peer-urls", "http://127.0.0.1:"+ports[1], "--log-level", "error")
	control(apiserver, "--etcd-servers", "http://127.0.0.1:"+ports[0], "--bind-address", "0.0.0.0",
		"--advertise-address", address, "--secure-port", ports[2],
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--tls-cert-file", file("server.crt"), "--tls-private-key-file", file("server.key"), "--client-ca-file",
		file("ca.crt"),
		"--kubelet-client-certificate", file("kubelet-client.crt"), "--kubelet-client-key", file("kubelet-client.key"),
		"--kubelet-certificate-authority", file("ca.crt"), "--kubelet-preferred-address-types", "InternalIP",
		"--service-cluster-ip-range", "10.97.0.0/16", "--allow-privileged",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", file("sa.key"),
		"--service-account-signing-key-file", file("sa.key"))
	c.eventually("kube-apiserver is ready", 3*time.Minute, func() bool {
		return c.try("get", "--raw", "/readyz") == "ok"
	})
	control(manager, "--kubeconfig", c.kubeconfig, "--authentication-kubeconfig", c.kubeconfig,
		"--authorization-kubeconfig", c.kubeconfig, "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=0", "--root-ca-file", file("ca.crt"), "--cluster-signing-cert-file",
		file("ca.crt"), "--cluster-signing-key-file", file("ca.key"),
		"--service-account-private-key-file", file("sa.key"), "--use-service-account-credentials=true",
		"--controllers=*,bootstrapsigner,tokencleaner",
		"--allocate-node-cidrs=true", "--cluster-cidr=10.245.0.0/16", "--service-cluster-ip-range=10.97.0.0/16")
	control(scheduler, "--kubeconfig", c.kubeconfig, "--authentication-kubeconfig", c.kubeconfig,
		"--authorization-kubeconfig", c.kubeconfig, "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=0")

	state, network := file("state/node"), file("cni")
	line, err := exec.Command(kelson, "token", "create", "--kubeconfig", c.kubeconfig, "--server", url).Output()
	require.NoErrorf(t, err, "kelson token create")
	t.Cleanup(func() {
		if out, err := exec.Command(node, "reset", "--data-dir", state, "--cni-config-dir",
			network).CombinedOutput(); err != nil {
			t.Errorf("kelson-node reset: %v\n%s", err, out)
		}
		c.nothingLeft(state)
	})
	args := append(strings.Fields(string(line))[1:], "--name=here", "--data-dir="+state, "--images="+images,
		"--cni-config-dir="+network, "--port=20250", "--healthz-port=20248")
	c.node = run(node, args...)
	c.eventually("the node is ready", 3*time.Minute, func() bool {
		return strings.Contains(c.try("get", "nodes"), " Ready ")
	})
	c.ready = time.Now()
	// Unlike Kelson, kube-controller-manager does not approve the serving certificates of kubelets.
	c.eventually("the serving certificate of the kubelet is approved", 3*time.Minute, func() bool {
		requests := strings.Fields(c.try("get", "certificatesigningrequests",
			"--field-selector=spec.signerName=kubernetes.io/kubelet-serving", "-o", "name"))
		return len(requests) > 0 && strings.Contains(c.try("certificate", "approve", requests[0]), "approved")
	})
	c.reaches("here")
	return c
}

// machineAddress returns the address of this machine's default route.
func machineAddress(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "-4", "-o", "route", "get", "192.0.2.1").Output()
	if err != nil {
		t.Skipf("this machine has no default route: %v", err)
	}
	fields := strings.Fields(string(out))
	for i, f := range fields {
		if f == "src" && i+1 < len(fields) {
			return fields[i+1]
		}
	}
	t.Fatalf("ip route get: %s", out)
	return ""
}

// upstreamKeys writes the keys of kube-apiserver and the kubeconfig of an administrator.
func upstreamKeys(t *testing.T, dir, url, address string) {
	t.Helper()
	authority, err := pki.NewAuthority("nodes")
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(authority.Key())
	require.NoError(t, err)
	server, err := authority.Server("127.0.0.1", "localhost", address, "10.97.0.1", "kubernetes.default.svc")
	require.NoError(t, err)
	kubelets, err := authority.Client("kube-apiserver-kubelet-client", "system:masters")
	require.NoError(t, err)
	admin, err := authority.Client("admin", "system:masters")
	require.NoError(t, err)
	_, err = pki.OpenKey(filepath.Join(dir, "sa.key"))
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"ca.crt": authority.PEM, "ca.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"server.crt": server.CertPEM, "server.key": server.KeyPEM, "kubelet-client.crt": kubelets.CertPEM,
		"kubelet-client.key": kubelets.KeyPEM,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"upstream": {Server: url,
			CertificateAuthorityData: authority.PEM}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"admin": {ClientCertificateData: admin.CertPEM,
			ClientKeyData: admin.KeyPEM}},
		Contexts:       map[string]*clientcmdapi.Context{"upstream": {Cluster: "upstream", AuthInfo: "admin"}},
		CurrentContext: "upstream",
	}, filepath.Join(dir, "kubeconfig")))
}
