package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kelson.dev/apiserver"
	"kelson.dev/test/child"
)

// serve runs the server behind a cluster until the test ends, and returns its URL and the folder of
// its certificates.
func serve(t *testing.T, kubeconfig string) (url, certs string) {
	t.Helper()
	certs = filepath.Join(t.TempDir(), "certs")
	ctx, cancel := context.WithCancel(t.Context())
	log, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := apiserver.Serve(ctx, []string{"--secure-port=0", "--bind-address=127.0.0.1", "--cert-dir=" + certs,
			"--kubeconfig=" + kubeconfig, "--serving-name=metrics.kube-system.svc"}, to, API(&meter{proc: proc(t)}))
		to.CloseWithError(fmt.Errorf("ended: %w", err))
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if found := regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(lines.Text()); found != nil {
			go io.Copy(io.Discard, log)
			return found[1], certs
		}
	}
	t.Fatalf("no URL in the log: %v", lines.Err())
	return "", ""
}

// kubectl top shows the metrics, with the server behind kelson serve.
func TestTop(t *testing.T) {
	kelson := os.Getenv("KELSON")
	if kelson == "" {
		t.Skip("SKIPPED: kubectl top needs a control plane: set KELSON to a kelson binary, as make test does")
	}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	p, err := child.Start(dir, kelson, "serve", "--in-memory", "--node=none", "--secure-port=0",
		"--kubeconfig="+kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(10 * time.Second) })
	kubectl := func(in string, args ...string) (string, error) {
		cmd := exec.Command(kelson, append([]string{"kubectl", "--kubeconfig", kubeconfig, "--cache-dir", dir},
			args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	eventually := func(want string, args ...string) string {
		t.Helper()
		// poll, because virtual time does not cover other processes
		for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			out, err := kubectl("", args...)
			if err == nil && strings.Contains(out, want) {
				return out
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("kubectl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, p.Output())
			}
		}
	}
	eventually("ok", "get", "--raw", "/readyz")
	url, certs := serve(t, kubeconfig)
	ca, err := os.ReadFile(filepath.Join(certs, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	out, err := kubectl(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: metrics, namespace: kube-system, annotations: {kelson.dev/url: %q}}
spec: {ports: [{port: 443}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec: {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, caBundle: %s, service: {namespace: kube-system, name: metrics}}
---
apiVersion: v1
kind: Node
metadata: {name: %q}
status: {capacity: {cpu: "2", memory: 2Mi}, allocatable: {cpu: "2", memory: 2Mi}}
`, url, base64.StdEncoding.EncodeToString(ca), name), "create", "-f", "-")
	if err != nil {
		t.Fatal(out)
	}
	eventually("condition met", "wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io")

	// The test's meter reads the same file twice, so no CPU was used.
	if got, want := fields(eventually(name, "top", "nodes")),
		"NAME CPU(cores) CPU(%) MEMORY(bytes) MEMORY(%) "+name+" 0m 0% 1Mi 50%"; got != want {
		t.Errorf("kubectl top nodes: %s, want %s", got, want)
	}
	if got, want := fields(eventually("user-1000", "top", "pods")),
		"NAME CPU(cores) MEMORY(bytes) user-1000 0m 0Mi"; got != want {
		t.Errorf("kubectl top pods: %s, want %s", got, want)
	}
	if got, want := fields(eventually("user-1000", "top", "pods", "--containers", "-l", "uid=1000")),
		"POD NAME CPU(cores) MEMORY(bytes) user-1000 processes 0m 0Mi"; got != want {
		t.Errorf("kubectl top pods --containers: %s, want %s", got, want)
	}
}

// fields returns the words of a table.
func fields(table string) string { return strings.Join(strings.Fields(table), " ") }
