package main

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/require"
	"kelson.dev/test/child"
)

// site has the servers of a test: kelson serve, wardle and its etcd.
type site struct {
	*testing.T
	kelson, wardle string // binaries
	dir            string
	etcd           string // URL
	port           string // of wardle
	server         *child.Process
}

func aggregationBinary(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skip("needs bin/" + name + ": make aggregation builds it")
	}
	return path
}

func newSite(t *testing.T) *site {
	s := &site{T: t, kelson: os.Getenv("KELSON"), wardle: aggregationBinary(t, "peers/wardle"), dir: t.TempDir()}
	if s.kelson == "" {
		s.kelson = aggregationBinary(t, "kelson")
	}
	var ports [3]string
	for i := range ports {
		var err error
		ports[i], err = child.FreePort()
		require.NoError(t, err)
	}
	s.etcd, s.port = "http://127.0.0.1:"+ports[0], ports[2]
	s.start(aggregationBinary(t, "peers/etcd"), "--data-dir", filepath.Join(s.dir, "etcd"), "--listen-client-urls", s.etcd,
		"--advertise-client-urls", s.etcd,
		"--listen-peer-urls", "http://127.0.0.1:"+ports[1], "--log-level", "error", "--unsafe-no-fsync")
	p := s.start(s.kelson, "serve", "--in-memory", "--node=none", "--secure-port", "0", "--kubeconfig", s.kubeconfig())
	s.eventually("kelson serve is ready", func() error {
		select {
		case <-p.Done:
			t.Fatal(p.Output())
		default:
		}
		_, err := s.try("get", "--raw", "/readyz")
		return err
	})
	authority, err := pki.NewAuthority("wardle")
	require.NoError(t, err)
	pair, err := authority.Server("wardle.default.svc")
	require.NoError(t, err)
	require.Files(t, s.dir, map[string][]byte{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM,
		"ca.crt": authority.PEM})
	return s
}

func (s *site) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

func (s *site) start(binary string, args ...string) *child.Process {
	s.Helper()
	p, err := child.Start(s.dir, binary, args...)
	require.NoError(s, err)
	s.Cleanup(func() { p.Stop(10 * time.Second) })
	return p
}

// serve starts wardle, which authenticates and authorizes by asking kelson.
func (s *site) serve() {
	s.Helper()
	s.server = s.start(s.wardle, "--secure-port", s.port, "--etcd-servers", s.etcd, "--kubeconfig", s.kubeconfig(),
		"--authentication-kubeconfig", s.kubeconfig(), "--authorization-kubeconfig", s.kubeconfig(),
		"--tls-cert-file", filepath.Join(s.dir, "tls.crt"), "--tls-private-key-file", filepath.Join(s.dir, "tls.key"))
	s.eventually("wardle listens", func() error {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, "tcp", "127.0.0.1:"+s.port,
			&tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return fmt.Errorf("%w\n%s", err, s.server.Output())
		}
		return conn.Close()
	})
}

func (s *site) try(args ...string) (string, error) {
	cmd := exec.Command(s.kelson, append([]string{"kubectl", "--kubeconfig", s.kubeconfig()}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+s.dir) // the discovery cache
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, errOut.String())
	}
	return string(out), err
}

// kubectl runs kubectl and compares parts of its output.
func (s *site) kubectl(want string, args ...string) {
	s.Helper()
	out, err := s.try(args...)
	if err != nil || !strings.Contains(out, want) {
		s.Errorf("kubectl %s: want %q, got %s %v", strings.Join(args, " "), want, out, err)
	}
}

// refused runs kubectl and compares parts of its error.
func (s *site) refused(want string, args ...string) {
	s.Helper()
	if out, err := s.try(args...); err == nil || !strings.Contains(err.Error(), want) {
		s.Errorf("kubectl %s: want the error %q, got %s %v", strings.Join(args, " "), want, out, err)
	}
}

func (s *site) apply(manifest string) {
	s.Helper()
	file := filepath.Join(s.dir, "manifest.yaml")
	require.NoError(s, os.WriteFile(file, []byte(manifest), 0o600))
	_, err := s.try("apply", "-f", file)
	require.NoError(s, err)
}

func (s *site) eventually(what string, do func() error) {
	s.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// The behavior of the conformance spec "Aggregator Should be able to support the 1.17 Sample API
// Server using the current Aggregator", with a process instead of the image.
func TestWardle(t *testing.T) {
	s := newSite(t)
	s.serve()
	ca, err := os.ReadFile(filepath.Join(s.dir, "ca.crt"))
	require.NoError(t, err)
	s.apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: wardle, namespace: default, annotations: {kelson.dev/url: "https://127.0.0.1:%s"}}
spec: {ports: [{port: 443}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.wardle.example.com}
spec: {group: wardle.example.com, version: v1alpha1, groupPriorityMinimum: 2000, versionPriority: 200, caBundle: %[2]q, service: {namespace: default, name: wardle}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.wardle.example.com}
spec: {group: wardle.example.com, version: v1beta1, groupPriorityMinimum: 2000, versionPriority: 100, caBundle: %[2]q, service: {namespace: default, name: wardle}}
`, s.port, base64.StdEncoding.EncodeToString(ca)))
	s.kubectl("condition met", "wait", "--for=condition=Available", "--timeout=60s",
		"apiservice/v1alpha1.wardle.example.com", "apiservice/v1beta1.wardle.example.com")
	s.kubectl("default/wardle", "get", "apiservices", "v1alpha1.wardle.example.com")

	// Discovery, merged and passed through.
	s.kubectl(`"preferredVersion":{"groupVersion":"wardle.example.com/v1alpha1"`, "get", "--raw",
		"/apis/wardle.example.com")
	s.kubectl(`"name":"flunders"`, "get", "--raw", "/apis/wardle.example.com/v1alpha1")
	s.kubectl("flunders", "api-resources", "--api-group=wardle.example.com")
	s.eventually("OpenAPI is merged", func() error {
		_, err := s.try("explain", "flunders.spec")
		return err
	})
	s.kubectl("referenceType", "explain", "flunders.spec")
	s.kubectl("/apis/wardle.example.com/v1alpha1/namespaces/{namespace}/flunders", "get", "--raw", "/openapi/v2")

	// The verbs.
	flunder := func(name string) string {
		return `{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: ` + name +
			`, namespace: default, labels: {a: b}}, spec: {reference: x}}`
	}
	s.apply(flunder("one"))
	s.apply(flunder("two"))
	s.kubectl("one", "get", "flunders")
	s.kubectl("flunder.wardle.example.com/two", "get", "flunders", "-l", "a=b", "-o", "name")
	s.kubectl("patched", "patch", "flunder", "one", "--type=merge", "-p", `{"metadata":{"labels":{"c":"d"}}}`)
	s.kubectl("c: d", "get", "flunder", "one", "-o", "yaml")
	s.kubectl(`"apiVersion":"wardle.example.com/v1beta1"`, "get", "--raw",
		"/apis/wardle.example.com/v1beta1/namespaces/default/flunders/one")
	s.kubectl("labeled", "label", "flunder", "two", "e=f")
	s.kubectl("deleted", "delete", "flunder", "two")
	s.refused(`flunders.wardle.example.com "two" not found`, "get", "flunder", "two")

	// Both servers authorize the user, by the same rules.
	s.refused(`User "jane" cannot list resource "flunders" in API group "wardle.example.com"`, "get", "flunders",
		"--as=jane")
	s.kubectl("created", "create", "clusterrole", "flunders", "--verb=get,list",
		"--resource=flunders.wardle.example.com")
	s.kubectl("created", "create", "rolebinding", "flunders", "--clusterrole=flunders", "--user=jane")
	s.kubectl("one", "get", "flunders", "--as=jane")
	s.refused("forbidden", "delete", "flunder", "one", "--as=jane")

	// A watch passes through.
	s.kubectl("one", "get", "--raw", "/apis/wardle.example.com/v1alpha1/flunders?watch=1&timeoutSeconds=1")

	// A server that ends does not affect other groups. Its group is served again after a restart.
	s.server.Stop(10 * time.Second)
	s.kubectl("jobs", "get", "--raw", "/apis/batch/v1")
	s.kubectl("condition met", "wait", "--for=condition=Available=false", "--timeout=60s",
		"apiservice/v1alpha1.wardle.example.com")
	s.kubectl("FailedDiscoveryCheck", "get", "apiservices", "v1alpha1.wardle.example.com")
	s.refused("the server is currently unable to handle the request", "get", "--raw",
		"/apis/wardle.example.com/v1alpha1/flunders")
	s.kubectl("namespace/default", "get", "namespaces", "-o", "name")
	s.serve()
	s.kubectl("condition met", "wait", "--for=condition=Available", "--timeout=60s",
		"apiservice/v1alpha1.wardle.example.com")
	s.kubectl("one", "get", "flunders")

	s.kubectl("deleted", "delete", "apiservices", "v1alpha1.wardle.example.com", "v1beta1.wardle.example.com")
	s.eventually("the group is not served", func() error {
		if out, err := s.try("get", "--raw", "/apis"); err != nil || strings.Contains(out, "wardle") {
			return fmt.Errorf("%s %w", out, err)
		}
		return nil
	})
}
