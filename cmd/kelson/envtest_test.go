package main

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The folder works after it is moved, --print-path prints only its path, and a second call replaces
// only kelson's own files.
func TestEnvtestFolder(t *testing.T) {
	kelson, dir := built(t, binary), filepath.Join(t.TempDir(), "assets")
	if got := command(t, nil, kelson, "envtest", "--print-path", dir); got.stdout != dir+"\n" || got.code != 0 {
		t.Fatal(got)
	}
	if got := command(t, nil, kelson, "envtest", dir); got.stdout != "export KUBEBUILDER_ASSETS="+dir+"\n" ||
		got.code != 0 {
		t.Error("a second call:", got)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(dir, moved))
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		info, err := os.Lstat(filepath.Join(moved, name))
		if err != nil || !info.Mode().IsRegular() {
			t.Error(name, info, err)
		}
	}
	if got := command(t, nil, filepath.Join(moved, "etcd"), "--help"); got.code != 0 ||
		!strings.Contains(got.stdout, "Replacement for the etcd") {
		t.Error("moved:", got)
	}
	for _, flag := range []string{"--help", "-h"} { // from a file, and from kelson
		if got := command(t, nil, filepath.Join(moved, "kube-apiserver"), flag); got.code != 0 ||
			!strings.Contains(got.stdout, "--etcd-servers") {
			t.Error("moved:", flag, got)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(moved, "etcd.txt"), nil, 0o644))
	require.NoError(t, os.Rename(filepath.Join(moved, "etcd.txt"), filepath.Join(moved, "etcd")))
	if got := command(t, nil, kelson, "envtest", moved); got.code == 0 ||
		!strings.Contains(got.stderr, "is not kelson") {
		t.Error("another etcd:", got)
	}
	home := t.TempDir()
	got := command(t, []string{"XDG_CACHE_HOME=" + home, "HOME=" + home}, kelson, "envtest", "--print-path")
	if got.code != 0 || !strings.HasPrefix(got.stdout, home) {
		t.Error("the default folder:", got)
	}
}

// The servers exit when the test that started them is killed.
func TestServersEndWithTheirParent(t *testing.T) {
	dir := t.TempDir()
	got := command(t, nil, built(t, binary), "envtest", dir)
	require.Equalf(t, got.code, 0, "%v", got)
	address := freeAddress(t)
	parent := exec.Command("sh", "-c", `"$1" --listen-client-urls "http://$2" & echo $!; wait`, "sh",
		filepath.Join(dir, "etcd"), address)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	if server, err := os.FindProcess(pid); err == nil {
		defer server.Kill()
	}
	healthy := func() bool {
		resp, err := http.Get("http://" + address + "/health")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	}
	within(t, "starts", healthy)
	require.NoError(t, parent.Process.Kill())
	_, _ = parent.Process.Wait()
	within(t, "ends", func() bool { return !healthy() })
}

// controller-runtime v0.8 and earlier wait for a line of etcd, and use kube-apiserver's port
// without TLS, as an administrator.
func TestServersOfOldSuites(t *testing.T) {
	dir := t.TempDir()
	if got := command(t, nil, built(t, binary), "envtest", dir); got.code != 0 {
		t.Fatal(got)
	}
	etcd := exec.Command(filepath.Join(dir, "etcd"), "--listen-peer-urls=http://localhost:0",
		"--listen-client-urls=http://"+freeAddress(t), "--data-dir="+t.TempDir())
	line, err := etcd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, etcd.Start())
	defer etcd.Wait()
	defer etcd.Process.Kill()
	if text, err := bufio.NewReader(line).ReadString('\n'); err != nil ||
		!strings.Contains(text, "serving insecure client requests on ") {
		t.Errorf("etcd writes %q: %v", text, err)
	}
	insecure, secure := freeAddress(t), freeAddress(t)
	port := func(address string) string {
		_, port, _ := net.SplitHostPort(address)
		return port
	}
	server := exec.Command(filepath.Join(dir, "kube-apiserver"), "--advertise-address=127.0.0.1",
		"--etcd-servers=http://127.0.0.1:1", "--cert-dir="+t.TempDir(), "--insecure-port="+port(insecure),
		"--insecure-bind-address=127.0.0.1", "--secure-port="+port(secure),
		"--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true")
	var out output
	server.Stdout, server.Stderr = &out, &out
	require.NoError(t, server.Start())
	defer func() {
		server.Process.Signal(os.Interrupt)
		server.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	}()
	status := func(url string) int {
		resp, err := http.Get(url)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	within(t, "healthy", func() bool { return status("http://"+insecure+"/healthz") == http.StatusOK })
	resp, err := http.Post("http://"+insecure+"/api/v1/namespaces", "application/json",
		strings.NewReader(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}}`))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equalf(t, resp.StatusCode, http.StatusCreated, "create a namespace: %s", resp.Status)
	// a watch, which does not delay the end of the server
	watch, err := http.Get("http://" + insecure + "/api/v1/namespaces?watch=true")
	require.NoError(t, err)
	defer watch.Body.Close()
	if text, err := bufio.NewReader(watch.Body).ReadString('\n'); err != nil || !strings.Contains(text, `"ADDED"`) {
		t.Errorf("the watch sends %q: %v", text, err)
	}
	got := command(t, nil, filepath.Join(dir, "kube-apiserver"), "--insecure-port=1", "--insecure-bind-address=0.0.0.0",
		"--secure-port="+port(freeAddress(t)))
	if got.code == 0 || !strings.Contains(got.stderr, "must be a loopback address") {
		t.Errorf("another address: %+v", got)
	}
	if got := command(t, nil, filepath.Join(dir, "kube-apiserver"), "--help"); strings.Contains(got.stdout, "--insecure-port") {
		t.Error("the help lists the port, so that newer versions of envtest turn it off")
	}
}

// within polls until a condition that depends on another process holds, for at most 30 seconds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not true after 30 s", what)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
