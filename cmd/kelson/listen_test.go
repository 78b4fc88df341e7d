package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The replacement of kube-apiserver listens on a loopback address by default, and warns if it does
// not.
func TestDropInListensOnLoopback(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink(built(t, binary), filepath.Join(dir, "kube-apiserver")))
	tokens := filepath.Join(dir, "tokens.csv")
	require.NoError(t, os.WriteFile(tokens, []byte("ann's,ann,1\n"), 0o600))
	run := func(args ...string) (port, stderr string) {
		t.Helper()
		port = strconv.Itoa(freePort(t))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		args = append([]string{"--secure-port=" + port, "--cert-dir=" + dir, "--token-auth-file=" + tokens}, args...)
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "kube-apiserver"), args...)
		var out output
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		for {
			conn, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				conn.Close()
				break
			}
			require.NoErrorf(t, ctx.Err(), "%v: %v\n%s", args, err, out.String())
			time.Sleep(10 * time.Millisecond)
		}
		if conn, err := net.Dial("tcp", "127.0.0.2:"+port); err == nil {
			conn.Close()
			port = "any"
		} else {
			writeSecrets(t, "https://127.0.0.1:"+port)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		return port, out.String()
	}
	if port, stderr := run("-v=10"); port == "any" || strings.Contains(stderr, "WARNING") ||
		strings.Contains(stderr, hidden) {
		t.Errorf("by default, the server listens on every address, warns, or logs contents: %s", stderr)
	}
	port, stderr := run("--bind-address=0.0.0.0")
	assert.Equalf(t, port, "any", "with --bind-address=0.0.0.0, the server does not listen on every address")
	wantContains(t, "stderr", stderr, "WARNING: listening on", "AlwaysAllow")
	if _, stderr = run("--bind-address=0.0.0.0", "--authorization-mode=RBAC"); strings.Contains(stderr, "AlwaysAllow") {
		t.Errorf("with RBAC: %s", stderr)
	}
}

// hidden is a value in objects that must not be logged.
const hidden = "hunter2-in-the-environment"

// writeSecrets sends valid and invalid objects with the hidden value to a server that allows
// everything.
func writeSecrets(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for body, want := range map[string]int{
		`{"metadata":{"name":"a"},"stringData":{"password":"` + hidden + `"}}`:  201,
		`{"metadata":{"name":"` + hidden + `."},"stringData":{"password":"x"}}`: 422,
		`{"metadata":{"name":"b"},"stringData":["` + hidden + `"]}`:             400,
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/api/v1/namespaces/default/secrets",
			strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer ann's")
		resp, err := client.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equalf(t, resp.StatusCode, want, "%s: %s", body, resp.Status)
	}
}

// kelson serve -v logs changes of objects, but not their content.
func TestVerboseServerLogsNoContents(t *testing.T) {
	s := startServer(t, "--in-memory", "-v", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	client := newWriter(t, s).client
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i",
				Env: []corev1.EnvVar{{Name: "PASSWORD", Value: hidden}}}},
		}},
	}}
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), deployment,
		metav1.CreateOptions{})
	require.NoError(t, err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && now.Status.ReadyReplicas == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %v", err)
		}
	}
	s.stop(syscall.SIGTERM) // the log is complete now
	text := s.stderr.String()
	if !strings.Contains(text, "level=DEBUG") || !strings.Contains(text, "web") {
		t.Errorf("the log does not show what happened: %.2000s", text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, hidden) {
			t.Fatalf("logged: %.1000s", line)
		}
	}
}
