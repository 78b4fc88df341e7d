package nodes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The second node is a network namespace, which is connected to the machine like another machine.
const (
	namespace   = "kelson-test"
	link        = "kelson-test0"
	hereAddress = "10.98.7.1"
	farAddress  = "10.98.7.2"
)

// Two machines join with tokens, and their pods reach each other and the Services. NODE-02, NODE-05
func TestTwoNodes(t *testing.T) {
	kelson, node := programs(t)
	connect(t)
	images := writeImages(t)
	dir, err := os.MkdirTemp("", "kelson-nodes-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cluster{T: t, kelson: kelson, kubeconfig: filepath.Join(dir, "kubeconfig"), log: filepath.Join(dir, "log")}
	log, err := os.Create(c.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			content, _ := os.ReadFile(c.log)
			t.Logf("log of the server and the nodes:\n%s", content)
		}
	})
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait() // a node that the test stopped has an exit code of its own
		})
		return cmd
	}
	run(kelson, "serve", "--data-dir", filepath.Join(dir, "state"), "--kubeconfig", c.kubeconfig, "--secure-port=17443", "--node=none",
		"--bind-address=0.0.0.0", "--advertise-address="+hereAddress, "--enable-bootstrap-token-auth",
		"--cluster-cidr=10.245.0.0/16", "--service-cluster-ip-range=10.97.0.0/16")
	c.eventually("the server answers", 30*time.Second, func() bool { return strings.Contains(c.try("get", "--raw", "/readyz"), "ok") })

	t.Cleanup(func() { // after the resets
		c.nothingLeft(filepath.Join(dir, "here"))
		c.nothingLeft(filepath.Join(dir, "far"))
	})
	join := func(name, address string, enter ...string) *exec.Cmd {
		line, err := exec.Command(kelson, "token", "create", "--kubeconfig", c.kubeconfig, "--server", "https://"+hereAddress+":17443").Output()
		if err != nil {
			t.Fatalf("kelson token create: %v", err)
		}
		data, network := filepath.Join(dir, name), filepath.Join(dir, name+"-cni")
		t.Cleanup(func() {
			args := append(enter, node, "reset", "--data-dir", data, "--cni-config-dir", network)
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Errorf("kelson-node reset: %v\n%s", err, out)
			}
		})
		args := append(enter, node)
		args = append(args, strings.Fields(string(line))[1:]...)
		args = append(args, "--name="+name, "--node-ip="+address, "--data-dir="+data, "--cni-config-dir="+network, "--images="+images)
		return run(args[0], args[1:]...)
	}
	join("here", hereAddress)
	far := join("far", farAddress, "nsenter", "--net=/run/netns/"+namespace)
	c.eventually("both nodes are ready", time.Minute, func() bool { return strings.Count(c.try("get", "nodes"), " Ready ") == 2 })

	c.kubectl("create", "-f", "testdata/everywhere.yaml")
	c.kubectl("expose", "pod", "on-here", "--port=80")
	c.kubectl("expose", "pod", "on-far", "--port=80")
	c.kubectl("wait", "pods", "--all", "--for=condition=Ready", "--timeout=60s")
	for _, from := range []string{"on-here", "on-far"} {
		for _, to := range []string{"on-here", "on-far"} {
			pod := c.kubectl("get", "pod", to, "-o", "jsonpath={.status.podIP}")
			service := c.kubectl("get", "service", to, "-o", "jsonpath={.spec.clusterIP}")
			for _, at := range []string{pod, service} {
				c.eventually(from+" reaches "+to+" at "+at, 20*time.Second, func() bool {
					return strings.Contains(c.try("exec", from, "--", "wget", "-qO-", "http://"+at), "served by "+to)
				})
			}
		}
		c.wants("logs", c.kubectl("logs", from), "started")
	}

	// A node that ends keeps its pods, and continues with them when it returns.
	_ = far.Process.Signal(syscall.SIGTERM)
	_ = far.Wait()
	address := c.kubectl("get", "pod", "on-far", "-o", "jsonpath={.status.podIP}")
	c.wants("a pod of a node without its kubelet", c.kubectl("exec", "on-here", "--", "wget", "-qO-", "http://"+address), "served by on-far")
	began := c.kubectl("get", "pod", "on-far", "-o", "jsonpath={.status.containerStatuses[0].containerID}")
	data, network := filepath.Join(dir, "far"), filepath.Join(dir, "far-cni")
	run("nsenter", "--net=/run/netns/"+namespace, node, "join", "https://"+hereAddress+":17443", "--ca-file="+filepath.Join(data, "pki/ca.crt"),
		"--name=far", "--node-ip="+farAddress, "--data-dir="+data, "--cni-config-dir="+network, "--label=shelf=2")
	c.eventually("the node answers again, without a token", time.Minute, func() bool { return strings.Contains(c.try("logs", "on-far"), "started") })
	if now := c.kubectl("get", "pod", "on-far", "-o", "jsonpath={.status.containerStatuses[0].containerID}"); now != began {
		t.Errorf("the container was replaced: %s, now %s", began, now)
	}
	c.wants("a label that is new", c.kubectl("get", "node", "far", "-o", "jsonpath={.metadata.labels.shelf}"), "2")
	c.kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=60s")
}

// connect creates the network namespace and the link to it.
func connect(t *testing.T) {
	t.Helper()
	ip := func(args ...string) {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v\n%s", args, err, out)
		}
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("needs iproute2: %v", err)
	}
	ip("netns", "add", namespace)
	// with its link
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", namespace).Run() })
	ip("link", "add", link, "type", "veth", "peer", "name", "far0", "netns", namespace)
	ip("address", "add", hereAddress+"/24", "dev", link)
	ip("link", "set", link, "up")
	ip("-n", namespace, "address", "add", farAddress+"/24", "dev", "far0")
	ip("-n", namespace, "link", "set", "far0", "up")
	ip("-n", namespace, "link", "set", "lo", "up")
	ip("-n", namespace, "route", "add", "default", "via", hereAddress)
}
