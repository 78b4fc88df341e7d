package etcd_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kelson.dev/internal/require"
)

// kelson returns the binary: $KELSON, or one built for the tests.
var kelson = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("KELSON"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "kelson-etcd-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kelson")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path,
		"../../cmd/kelson").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kelson: %w: %s", err, out)
	}
	return path, nil
})

// text is the output of a process so far.
type text struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (o *text) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.Write(p)
}

func (o *text) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.String()
}

// server is a kelson serve process.
type server struct {
	t          *testing.T
	path       string
	kubeconfig string
	process    *exec.Cmd
	log        text
}

func serve(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	path, err := kelson()
	require.NoError(t, err)
	s := &server{t: t, path: path, kubeconfig: filepath.Join(dir, "kubeconfig")}
	s.process = exec.Command(path, append([]string{"serve", "--secure-port=0", "--data-dir", filepath.Join(dir, "data"),
		"--kubeconfig", s.kubeconfig}, args...)...)
	s.process.Stderr = &s.log
	stdout, err := s.process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.process.Start())
	t.Cleanup(s.kill)
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		s.kill()
		t.Fatalf("kelson serve ended: %s", s.log.String())
	}
	go func() {
		for lines.Scan() {
		}
	}()
	return s
}

func (s *server) kill() {
	if s.process.ProcessState == nil {
		s.process.Process.Signal(syscall.SIGKILL)
		s.process.Wait()
	}
}

func (s *server) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.path, append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "HOME="+filepath.Dir(s.kubeconfig))
	return cmd
}

// try runs kubectl and returns its output, including errors.
func (s *server) try(input string, args ...string) (string, error) {
	cmd := s.command(s.t.Context(), args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubectl runs a command that must succeed.
func (s *server) kubectl(input string, args ...string) string {
	s.t.Helper()
	out, err := s.try(input, args...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v: %s\nthe server says: %s", strings.Join(args, " "), err, out, s.log.String())
	}
	return out
}

// certificates writes ca.crt, and a key pair for servers and clients on this machine.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		}
	}
	authority, leaf := template("etcd-ca"), template("etcd")
	authority.IsCA, authority.KeyUsage = true, x509.KeyUsageCertSign
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature,
		[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, caKey.Public(), caKey)
	require.NoError(t, err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, leafKey.Public(), caKey)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(leafKey)
	require.NoError(t, err)
	return write("ca.crt", "CERTIFICATE", caDER), write("etcd.crt", "CERTIFICATE", leafDER),
		write("etcd.key", "EC PRIVATE KEY", keyDER)
}

const gadgets = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.example.com}, spec: {group: example.com,
  names: {plural: gadgets, kind: Gadget}, scope: Namespaced, versions: [{name: v1, served: true, storage: true,
  schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

// Two servers over one etcd act as one control plane, even if one of them is killed or etcd is
// unavailable for a while.
func TestServers(t *testing.T) {
	require.Long(t, "takes half a minute, until a Lease expires")
	t.Parallel() // it mostly waits
	ca, cert, key := certificates(t)
	c := startCluster(t, 1, "https", "--cert-file", cert, "--key-file", key, "--trusted-ca-file", ca,
		"--client-cert-auth")
	dir := t.TempDir()
	encryption := filepath.Join(dir, "encryption.yaml")
	require.NoError(t, os.WriteFile(encryption, fmt.Appendf(nil,
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n"+
			"  providers: [{aesgcm: {keys: [{name: one, secret: %s}]}}]\n",
		base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))), 0o600))
	flags := []string{"--etcd-servers", strings.Join(c.endpoints(), ","), "--etcd-cafile", ca, "--etcd-certfile", cert,
		"--etcd-keyfile", key,
		"--etcd-timeout", "5s", "--encryption-provider-config", encryption, "--node=simulated"}

	refusesOthers(t, c, cert, key)
	one := filepath.Join(dir, "a")
	two := filepath.Join(dir, "b")
	a := serve(t, one, append(flags, "--advertise-address=192.0.2.1")...)
	require.NoError(t, os.CopyFS(filepath.Join(two, "data", "pki"), os.DirFS(filepath.Join(one, "data", "pki"))))
	b := serve(t, two, append(flags, "--advertise-address=192.0.2.2")...)
	// published returns the endpoints of the Service kubernetes, if both of its objects have the
	// same endpoints.
	published := func() string {
		get := func(kind, path string) string {
			// without the warnings on standard error
			out, err := b.command(t.Context(), "get", kind, "kubernetes", "-o", "jsonpath="+path).Output()
			require.NoError(t, err)
			all := strings.Fields(string(out))
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		endpoints, slice := get("endpoints", "{.subsets[*].addresses[*].ip}"),
			get("endpointslice", "{.endpoints[*].addresses[0]}")
		if endpoints != slice {
			return endpoints + ", not " + slice
		}
		return slice
	}
	require.Eventually(t, "both servers are endpoints", func() bool { return published() == "192.0.2.1 192.0.2.2" })

	// Both servers serve a kind that one of them has defined, and a watch at one receives the
	// writes of the other.
	a.kubectl(gadgets, "apply", "-f", "-")
	a.kubectl("", "wait", "--for=condition=Established", "crd/gadgets.example.com", "--timeout=30s")
	b.kubectl("{apiVersion: example.com/v1, kind: Gadget, metadata: {name: first}}", "apply", "-f", "-")
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	var seen text
	watch := b.command(watching, "get", "gadgets", "-w", "-o", "name")
	watch.Stdout = &seen
	require.NoError(t, watch.Start())
	require.Eventually(t, "the watch begins", func() bool {
		return strings.Contains(seen.String(), "gadget.example.com/first")
	})
	a.kubectl("{apiVersion: example.com/v1, kind: Gadget, metadata: {name: second}}", "apply", "-f", "-")
	require.Eventually(t, "the watch at the other shows it", func() bool {
		return strings.Contains(seen.String(), "gadget.example.com/second")
	})
	stop()
	watch.Wait()

	// Encrypted values are encrypted in etcd.
	b.kubectl("", "create", "secret", "generic", "hidden", "--from-literal=word=correct-horse")
	if got := a.kubectl("", "get", "secret", "hidden", "-o",
		"jsonpath={.data.word}"); got != base64.StdEncoding.EncodeToString([]byte("correct-horse")) {
		t.Errorf("the other server reads %q", got)
	}

	// The holder of the Lease is killed, and the other server takes over.
	holder := func() string {
		return b.kubectl("", "get", "lease", "-n", "kube-system", "kelson-controllers", "-o",
			"jsonpath={.spec.holderIdentity}")
	}
	before := holder()
	if before == "" {
		t.Fatal("the Lease has no holder")
	}
	a.kill()
	b.kubectl("", "create", "deployment", "web", "--image=web", "--replicas=2")
	require.Eventually(t, "the other has the Lease", func() bool { now := holder(); return now != "" && now != before })
	require.Eventually(t, "the killed server is not an endpoint", func() bool { return published() == "192.0.2.2" })
	require.Eventually(t, "the Deployment has its pods", func() bool {
		return b.kubectl("", "get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}") == "2"
	})

	// While etcd is unavailable, requests and readiness fail; afterwards, they work again.
	c.members[0].kill()
	if out, err := b.try("", "get", "--raw", "/readyz"); err == nil || !strings.Contains(out, "etcd") {
		t.Errorf("readiness without etcd: %v, %s", err, out)
	}
	if out, err := b.try("", "get", "--raw", "/livez"); err != nil {
		t.Errorf("liveness without etcd: %v, %s", err, out)
	}
	if out, err := b.try("", "get", "--raw", "/api/v1/namespaces/default/secrets/hidden"); err == nil ||
		!strings.Contains(out, "newest state could not be read") {
		t.Errorf("a read without etcd: %v, %s", err, out)
	}
	if out, err := b.try("{apiVersion: v1, kind: ConfigMap, metadata: {name: lost}}", "create", "--validate=false",
		"-f", "-"); err == nil || !strings.Contains(out, "newest state could not be read") {
		t.Errorf("a write without etcd: %v, %s", err, out)
	}
	c.start(t, 0)
	var answer string
	defer func() {
		if t.Failed() {
			log, _ := os.ReadFile(c.members[0].log)
			t.Logf("the last answer for /readyz: %s\netcd's log:\n%s", answer, log)
		}
	}()
	require.Eventually(t, "etcd is back", func() bool {
		out, err := b.try("", "get", "--raw", "/readyz")
		answer = out
		return err == nil
	})
	b.kubectl("{apiVersion: v1, kind: ConfigMap, metadata: {name: again}}", "create", "-f", "-")
}

// refusesOthers starts a server that does not trust etcd's certificate.
func refusesOthers(t *testing.T, c *cluster, cert, key string) {
	t.Helper()
	path, err := kelson()
	require.NoError(t, err)
	wrong, _, _ := certificates(t)
	cmd := exec.Command(path, "serve", "--secure-port=0", "--data-dir", t.TempDir(), "--etcd-servers",
		strings.Join(c.endpoints(), ","),
		"--etcd-cafile", wrong, "--etcd-certfile", cert, "--etcd-keyfile", key, "--etcd-timeout", "2s")
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Count(string(out), "\n") != 1 ||
		!strings.Contains(string(out), "certificate signed by unknown authority") {
		t.Errorf("with a wrong authority: %v:\n%s", err, out)
	}
}
