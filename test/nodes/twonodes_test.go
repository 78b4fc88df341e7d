package nodes_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The second node is a network namespace, connected to this machine like a separate machine.
const (
	namespace   = "kelson-test"
	link        = "kelson-test0"
	hereAddress = "10.98.7.1"
	farAddress  = "10.98.7.2"
	here6       = "fd98:7::1"
	far6        = "fd98:7::2"
)

// hasIPv6 reports whether network devices of this machine may have IPv6 addresses.
func hasIPv6() bool {
	disabled, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil && strings.TrimSpace(string(disabled)) == "0"
}

// Two machines join with tokens. Their pods reach each other and the Services, over IPv4 and, if
// this machine has it, over IPv6.
func TestTwoNodes(t *testing.T) {
	kelson, node := programs(t)
	connect(t)
	images := writeImages(t)
	dir, err := os.MkdirTemp("", "kelson-nodes-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cluster{T: t, kelson: kelson, kubeconfig: filepath.Join(dir, "kubeconfig"), log: filepath.Join(dir, "log")}
	log, err := os.Create(c.log)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			content, _ := os.ReadFile(c.log)
			t.Logf("log of the server and the nodes:\n%s", content)
		}
	})
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Stdout, cmd.Stderr = log, log
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait() // a node that the test stopped has an exit code of its own
		})
		return cmd
	}
	podRange, serviceRange := "10.245.0.0/16", "10.97.0.0/16"
	dual := hasIPv6()
	if dual {
		podRange, serviceRange = podRange+",fd98:245::/56", serviceRange+",fd98:97::/112"
	} else {
		t.Log("this machine has no IPv6: the test uses IPv4 only")
	}
	run(kelson, "serve", "--data-dir", filepath.Join(dir, "state"), "--kubeconfig", c.kubeconfig, "--secure-port=17443",
		"--node=none",
		"--bind-address=0.0.0.0", "--advertise-address="+hereAddress, "--enable-bootstrap-token-auth",
		"--cluster-cidr="+podRange, "--service-cluster-ip-range="+serviceRange)
	c.eventually("the server answers", 3*time.Minute, func() bool {
		return strings.Contains(c.try("get", "--raw", "/readyz"), "ok")
	})

	t.Cleanup(func() { // after the resets
		c.nothingLeft(filepath.Join(dir, "here"))
		c.nothingLeft(filepath.Join(dir, "far"))
	})
	reset := func(name string, args ...string) *exec.Cmd {
		args = append(args, node, "reset", "--data-dir", filepath.Join(dir, name), "--cni-config-dir",
			filepath.Join(dir, name+"-cni"))
		return exec.Command(args[0], args[1:]...)
	}
	addresses := func(address, address6 string) string {
		if dual {
			address += "," + address6
		}
		return "--node-ip=" + address
	}
	join := func(name, ip string, enter ...string) *exec.Cmd {
		line, err := exec.Command(kelson, "token", "create", "--kubeconfig", c.kubeconfig, "--server",
			"https://"+hereAddress+":17443").Output()
		require.NoErrorf(t, err, "kelson token create")
		data, network := filepath.Join(dir, name), filepath.Join(dir, name+"-cni")
		t.Cleanup(func() {
			if _, err := os.Stat(data); err != nil {
				return // the test has reset it
			}
			if out, err := reset(name, enter...).CombinedOutput(); err != nil {
				t.Errorf("kelson-node reset: %v\n%s", err, out)
			}
		})
		args := append(slices.Clone(enter), node)
		args = append(args, strings.Fields(string(line))[1:]...)
		args = append(args, "--name="+name, ip, "--data-dir="+data, "--cni-config-dir="+network, "--images="+images)
		return run(args[0], args[1:]...)
	}
	join("here", addresses(hereAddress, here6))
	inFar := []string{"nsenter", "--net=/run/netns/" + namespace}
	far := join("far", addresses(farAddress, far6), inFar...)
	c.eventually("both nodes are ready", 3*time.Minute, func() bool {
		return strings.Count(c.try("get", "nodes"), " Ready ") == 2
	})

	c.reaches("here")
	c.reaches("far")

	// Pods need the service account, which a controller creates.
	c.eventually("the pods are created", 3*time.Minute, func() bool {
		_, err := c.run("", "apply", "-f", "testdata/everywhere.yaml")
		return err == nil
	})
	families := []string{"IPv4"}
	if dual {
		families = append(families, "IPv6")
	}
	for _, pod := range []string{"on-here", "on-far"} {
		c.kubectl("expose", "pod", pod, "--port=80", "--overrides",
			`{"apiVersion":"v1","spec":{"ipFamilyPolicy":"PreferDualStack"}}`)
	}
	c.kubectl("wait", "pods", "--all", "--for=condition=Ready", "--timeout=180s")
	for _, from := range []string{"on-here", "on-far"} {
		for _, to := range []string{"on-here", "on-far"} {
			pods := strings.Fields(c.kubectl("get", "pod", to, "-o", "jsonpath={.status.podIPs[*].ip}"))
			services := strings.Fields(c.kubectl("get", "service", to, "-o", "jsonpath={.spec.clusterIPs[*]}"))
			if len(pods) != len(families) || len(services) != len(families) {
				t.Fatalf("%s has the addresses %v, its Service %v, want %v of each", to, pods, services, families)
			}
			for _, at := range slices.Concat(pods, services) {
				c.eventually(from+" reaches "+to+" at "+at, 3*time.Minute, func() bool {
					return strings.Contains(c.try("exec", from, "--", "timeout", "5", "wget", "-qO-",
						"http://"+net.JoinHostPort(at, "80")), "served by "+to)
				})
			}
		}
		c.becomes("logs", "started", "logs", from)
	}

	// A node that ends keeps its pods, and continues with them when it returns.
	_ = far.Process.Signal(syscall.SIGTERM)
	_ = far.Wait()
	address := c.kubectl("get", "pod", "on-far", "-o", "jsonpath={.status.podIP}")
	c.wants("a pod of a node without its kubelet",
		c.kubectl("exec", "on-here", "--", "wget", "-qO-", "http://"+address), "served by on-far")
	began := c.kubectl("get", "pod", "on-far", "-o", "jsonpath={.status.containerStatuses[0].containerID}")
	data, network := filepath.Join(dir, "far"), filepath.Join(dir, "far-cni")
	// The node moves to several servers, one of which does not exist.
	far = run("nsenter", "--net=/run/netns/"+namespace, node, "join", "https://"+farAddress+":17443",
		"https://"+hereAddress+":17443", "--ca-file="+filepath.Join(data, "pki/ca.crt"),
		"--name=far", addresses(farAddress, far6), "--data-dir="+data, "--cni-config-dir="+network, "--label=shelf=2")
	c.eventually("the node is ready again, without a token", 3*time.Minute, func() bool {
		return strings.Contains(c.try("logs", "on-far"), "started")
	})
	if now := c.kubectl("get", "pod", "on-far", "-o", "jsonpath={.status.containerStatuses[0].containerID}"); now != began {
		t.Errorf("the container was replaced: %s, now %s", began, now)
	}
	c.wants("a new label", c.kubectl("get", "node", "far", "-o", "jsonpath={.metadata.labels.shelf}"), "2")

	// Remove a node.
	c.kubectl("drain", "far", "--force", "--grace-period=1", "--timeout=180s")
	_ = far.Process.Signal(syscall.SIGTERM)
	_ = far.Wait()
	leave := reset("far", inFar...)
	leave.Args = append(leave.Args, "--kubeconfig", c.kubeconfigAt(hereAddress))
	if out, err := leave.CombinedOutput(); err != nil {
		t.Errorf("kelson-node reset --kubeconfig: %v\n%s", err, out)
	}
	assert.Equalf(t, c.kubectl("get", "nodes", "-o", "name"), "node/here\n", "after the reset, the nodes")
	c.kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=180s")
}

// kubeconfigAt writes a kubeconfig for machines that reach the server at an address.
func (c *cluster) kubeconfigAt(address string) string {
	c.Helper()
	content, err := os.ReadFile(c.kubeconfig)
	require.NoError(c, err)
	file := c.kubeconfig + "." + address
	require.NoError(c, os.WriteFile(file, bytes.ReplaceAll(content, []byte("127.0.0.1"), []byte(address)), 0o600))
	return file
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
	// deletes the link, too
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", namespace).Run() })
	ip("link", "add", link, "type", "veth", "peer", "name", "far0", "netns", namespace)
	ip("address", "add", hereAddress+"/24", "dev", link)
	if hasIPv6() {
		ip("address", "add", here6+"/64", "dev", link, "nodad")
		ip("-n", namespace, "address", "add", far6+"/64", "dev", "far0", "nodad")
	}
	ip("link", "set", link, "up")
	ip("-n", namespace, "address", "add", farAddress+"/24", "dev", "far0")
	ip("-n", namespace, "link", "set", "far0", "up")
	ip("-n", namespace, "link", "set", "lo", "up")
	ip("-n", namespace, "route", "add", "default", "via", hereAddress)
}
