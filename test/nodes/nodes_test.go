// Package nodes_test runs Kubernetes' kubelet and kube-proxy with containerd on this machine,
// joined to kelson serve by kelson-node. make nodes builds the programs and runs it.
//
// The tests need root, containerd, runc, the CNI plugins, nftables and a static busybox; they skip
// where one is missing. They change the machine's network while they run, and restore it.
package nodes_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// programs returns the binaries of the tests, or skips the test.
func programs(t *testing.T) (kelson, node string) {
	t.Helper()
	kelson, node = os.Getenv("KELSON"), os.Getenv("KELSON_NODE")
	if kelson == "" || node == "" {
		t.Skip("SKIPPED: KELSON and KELSON_NODE name no programs: run make nodes")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	for _, p := range []string{"containerd", "runc", "ctr", "nft", "busybox"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIPPED: needs containerd, runc, nftables and busybox-static: %v", err)
		}
	}
	if out, err := exec.Command(node, "check", "--proxy-mode=nftables").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: kelson-node check: %s", out)
	}
	return kelson, node
}

// cluster is kelson serve with a node on this machine.
type cluster struct {
	*testing.T
	kelson, kubeconfig string
	log                string
	server             []*os.Process // control plane; --node=containers: the node is a child
	node               *os.Process   // kelson-node that joined
	began, ready       time.Time     // the start of the first process, and when the node was ready
}

// start starts kelson serve --node=containers and waits until the node is ready. Everything is
// removed at the end of the test.
func start(t *testing.T) *cluster {
	t.Helper()
	kelson, node := programs(t)
	images := writeImages(t)
	dir, err := os.MkdirTemp("", "kelson-nodes-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cluster{T: t, kelson: kelson, kubeconfig: filepath.Join(dir, "kubeconfig"), log: filepath.Join(dir, "log")}
	log, err := os.Create(c.log)
	require.NoError(t, err)
	network := filepath.Join(dir, "cni")
	cmd := exec.Command(kelson, "serve", "--data-dir", filepath.Join(dir, "state"), "--kubeconfig", c.kubeconfig,
		"--secure-port=0",
		"--node=containers", "--service-cluster-ip-range=10.97.0.0/16", "--cluster-cidr=10.245.0.0/16",
		"--", "--name=here", "--images="+images, "--cni-config-dir="+network, "--port=20250", "--healthz-port=20248")
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(node)+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = log, log
	c.began = time.Now()
	require.NoError(t, cmd.Start())
	c.server = append(c.server, cmd.Process)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		assert.NoErrorf(t, cmd.Wait(), "kelson serve")
		if t.Failed() {
			content, _ := os.ReadFile(c.log)
			t.Logf("log of the server and the node:\n%s", content)
		}
		state := filepath.Join(dir, "state/node")
		if out, err := exec.Command(node, "reset", "--data-dir", state, "--cni-config-dir",
			network).CombinedOutput(); err != nil {
			t.Errorf("kelson-node reset: %v\n%s", err, out)
		}
		c.nothingLeft(state)
	})
	c.eventually("the node is ready", 3*time.Minute, func() bool {
		return strings.Contains(c.try("get", "nodes"), " Ready ")
	})
	c.ready = time.Now()
	c.reaches("here")
	if _, err := os.Stat(filepath.Join(filepath.Dir(kelson), "kelson-dns")); err == nil {
		// After this, the cluster does not create more objects by itself.
		c.kubectl("wait", "-n", "kube-system", "deployment/coredns", "--for=condition=Available", "--timeout=180s")
	}
	return c
}

// nothingLeft checks that reset removed the node from the machine.
func (c *cluster) nothingLeft(state string) {
	c.Helper()
	if _, err := os.Stat(state); err == nil {
		c.Errorf("%s is left", state)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(c, err)
	rules, err := exec.Command("nft", "list", "tables").Output()
	require.NoError(c, err)
	for _, left := range []struct{ what, name, list string }{
		{"a mount", state, string(mounts)}, {"a table", "kelson-node", string(rules)},
		{"a table", "kube-proxy", string(rules)},
	} {
		if strings.Contains(left.list, left.name) {
			c.Errorf("%s %s is left in\n%s", left.what, left.name, left.list)
		}
	}
	if _, err := os.Stat("/sys/class/net/kelson0"); err == nil {
		c.Error("the bridge kelson0 is left")
	}
	for _, name := range []string{"here", "far"} {
		if left, _ := filepath.Glob("/sys/fs/cgroup/*/kelson-" + name); len(left) > 0 {
			c.Errorf("cgroups are left: %v", left)
		}
	}
}

// run runs kubectl with an input, and returns its output and error.
func (c *cluster) run(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.kelson, append([]string{"kubectl", "--kubeconfig", c.kubeconfig}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

func (c *cluster) try(args ...string) string {
	out, _ := c.run("", args...)
	return out
}

// kubectl runs kubectl, which must succeed.
func (c *cluster) kubectl(args ...string) string {
	c.Helper()
	out, err := c.run("", args...)
	if err != nil {
		c.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return out
}

func (c *cluster) eventually(what string, within time.Duration, holds func() bool) {
	c.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatalf("after %s: not true: %s", within, what)
		}
	}
}

// reaches waits until a node has its serving certificate and the server can connect to it.
func (c *cluster) reaches(node string) {
	c.Helper()
	c.eventually("the server reaches the node "+node, 3*time.Minute, func() bool {
		return c.try("get", "--raw", "/api/v1/nodes/"+node+"/proxy/healthz") == "ok"
	})
}

// becomes waits until the output of kubectl contains a text, such as one that a container writes
// after it has started.
func (c *cluster) becomes(what, part string, args ...string) {
	c.Helper()
	got := ""
	c.Cleanup(func() {
		if c.Failed() && !strings.Contains(got, part) {
			c.Logf("%s: the last output was %q", what, got)
		}
	})
	c.eventually(what+" contains "+part, 3*time.Minute, func() bool {
		got = c.try(args...)
		return strings.Contains(got, part)
	})
}

func (c *cluster) wants(what, got string, parts ...string) {
	c.Helper()
	for _, p := range parts {
		assert.Containsf(c, got, p, "%s", what)
	}
}

// Pods run in containers, and the server reaches them.
func TestContainers(t *testing.T) {
	c := start(t)
	c.eventually("the server signs both certificates of the node", 3*time.Minute, func() bool {
		requests := c.kubectl("get", "certificatesigningrequests")
		return strings.Contains(requests, "kubernetes.io/kube-apiserver-client-kubelet") &&
			strings.Contains(requests, "kubernetes.io/kubelet-serving") &&
			strings.Count(requests, "Approved,Issued") == 2
	})
	c.wants("the range of the node's pods", c.kubectl("get", "node", "here", "-o", "jsonpath={.spec.podCIDR}"),
		"10.245.0.0/24")

	c.kubectl("create", "deployment", "web", "--image=busybox:test", "--replicas=2", "--", "sh", "-c",
		"echo served by $HOSTNAME > /tmp/index.html; echo started; exec httpd -f -p 80 -h /tmp")
	c.kubectl("expose", "deployment", "web", "--port=80")
	c.kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=180s")
	pod := strings.Fields(c.kubectl("get", "pods", "-l", "app=web", "-o", "name"))[0]
	name := strings.TrimPrefix(pod, "pod/")

	c.becomes("logs", "started\n", "logs", pod)
	c.becomes("exec", "served by "+name, "exec", pod, "--", "cat", "/tmp/index.html")
	echoed, err := c.run("through standard input", "exec", "-i", pod, "--", "cat")
	if err != nil || echoed != "through standard input" {
		t.Errorf("exec -i: %v: %q", err, echoed)
	}
	c.wants("the API server inside a pod", c.kubectl("exec", pod, "--", "sh", "-c",
		`echo $KUBERNETES_SERVICE_HOST; ls /var/run/secrets/kubernetes.io/serviceaccount`), "10.97.0.1\n", "ca.crt",
		"token")
	address := c.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	c.eventually("a pod reaches the Service", 3*time.Minute, func() bool {
		return strings.Contains(c.try("exec", pod, "--", "wget", "-qO-", "http://"+address), "served by web-")
	})
	c.eventually("this machine reaches the Service", 3*time.Minute, func() bool {
		return strings.Contains(get("http://"+address, quick), "served by web-")
	})
	// The program in the pod may not listen yet.
	c.becomes("proxy of the Service", "served by web-", "get", "--raw",
		"/api/v1/namespaces/default/services/web/proxy/")
	c.becomes("proxy of the pod", "served by "+name, "get", "--raw", "/api/v1/namespaces/default/pods/"+name+"/proxy/")
	c.wants("proxy of the node", c.kubectl("get", "--raw", "/api/v1/nodes/here/proxy/healthz"), "ok")

	hello := filepath.Join(t.TempDir(), "hello")
	require.NoError(t, os.WriteFile(hello, []byte("copied"), 0o600))
	c.kubectl("cp", hello, name+":/tmp/hello")
	c.wants("cp", c.kubectl("exec", pod, "--", "cat", "/tmp/hello"), "copied")
	c.portForward(pod)

	c.kubectl("delete", "deployment", "web", "--timeout=180s")
	c.eventually("the pods are deleted", 3*time.Minute, func() bool { return c.try("get", "pods", "-o", "name") == "" })
}

// portForward reads a page of a pod through kubectl port-forward.
func (c *cluster) portForward(pod string) {
	c.Helper()
	cmd := exec.Command(c.kelson, "kubectl", "--kubeconfig", c.kubeconfig, "port-forward", pod, ":80")
	out, err := cmd.StdoutPipe()
	require.NoError(c, err)
	require.NoError(c, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(c, err)
	at := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	c.wants("port-forward", get("http://"+at, time.Minute), "served by "+strings.TrimPrefix(pod, "pod/"))
}

// quick is the timeout of requests that are repeated until they succeed.
const quick = 2 * time.Second

// get returns the body of a page, or the error.
func get(url string, timeout time.Duration) string {
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// A node may read and write only the objects that its pods need.
func TestNodesAreRestricted(t *testing.T) {
	c := start(t)
	c.kubectl("create", "secret", "generic", "other", "--from-literal=a=b")
	c.kubectl("create", "-f", "testdata/other-node.yaml")
	as := func(args ...string) (string, error) {
		return c.run("", append(args, "--as=system:node:here", "--as-group=system:nodes",
			"--as-group=system:authenticated")...)
	}
	out, err := as("get", "node", "here", "-o", "name")
	assert.NoErrorf(t, err, "its own node: %s", out)
	for _, args := range [][]string{
		{"get", "secret", "other"},
		{"get", "secrets"},
		{"label", "node", "other", "a=b"},
		{"delete", "node", "other"},
		{"label", "node", "here", "node-restriction.kubernetes.io/a=b"},
		{"taint", "node", "other", "a=b:NoSchedule"},
		{"create", "token", "default"},
		{"create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin", "--user=system:node:here"},
	} {
		if out, err := as(args...); err == nil || !strings.Contains(strings.ToLower(out), "forbidden") &&
			!strings.Contains(out, "not allowed") {
			t.Errorf("as the node, kubectl %v: %v: %s", args, err, out)
		}
	}
}
