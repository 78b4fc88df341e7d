package kubernetes_test

import (
	"os"
	"os/signal"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node"
	"kelson.dev/lab/testenv"
)

const webManifest = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},
 "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}}},
{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"web"},"spec":{"minAvailable":2,"selector":{"matchLabels":{"app":"web"}}}}]}`

// An administrator rolls out a Deployment and takes nodes out of service, using only kubectl.
func TestOperateNodes(t *testing.T) {
	// Start the process's goroutine for signals outside of the bubble, because kubectl's waiting
	// commands use it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	signal.Stop(signals)

	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads(),
			testenv.Nodes(controlplane.Simulated{Groups: []simulatednodes.Group{{Count: 3}}}))
		p := &clientsPlane{t, env.RESTConfig()}
		run := func(args ...string) string {
			t.Helper()
			out, err := p.kubectl(webManifest, args...)
			if err != nil {
				t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
			}
			return out
		}
		contains := func(out string, parts ...string) {
			t.Helper()
			for _, part := range parts {
				if !strings.Contains(out, part) {
					t.Errorf("no %q in:\n%s", part, out)
				}
			}
		}
		env.Settle(t) // until the nodes are created
		nodes := strings.Fields(run("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))
		if len(nodes) != 3 {
			t.Fatal(nodes)
		}
		used := func() []string {
			t.Helper()
			names := strings.Fields(run("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"))
			slices.Sort(names)
			return slices.Compact(names)
		}
		run("wait", "nodes", "--all", "--for=condition=Ready", "--timeout=60s")
		contains(run("get", "nodes"), "Ready", node.DefaultVersion)

		run("apply", "-f", "-")
		contains(run("rollout", "status", "deployment/web", "--timeout=60s"), "successfully rolled out")
		if on := used(); len(on) != 3 {
			t.Errorf("the pods are on %v, want all nodes", on)
		}
		pod := strings.Fields(run("get", "pods", "-o", "name"))[0]
		contains(run("describe", pod), "Image:", "web:1", "Scheduled", "Pulled", "Started", "Ready", "True")

		run("set", "image", "deployment/web", "web=web:2")
		run("rollout", "status", "deployment/web", "--timeout=60s")
		contains(run("rollout", "history", "deployment/web"), "1", "2")
		run("rollout", "undo", "deployment/web")
		run("rollout", "status", "deployment/web", "--timeout=60s")
		env.Settle(t) // kubectl does not wait until the old pods have ended
		if images := run("get", "pods", "-l", "app=web", "-o",
			"jsonpath={.items[*].spec.containers[0].image}"); strings.Contains(images, "web:2") {
			t.Error(images)
		}
		run("rollout", "restart", "deployment/web")
		run("rollout", "status", "deployment/web", "--timeout=60s")

		contains(run("cordon", nodes[0]), "cordoned")
		contains(run("get", "node", nodes[0]), "SchedulingDisabled")
		contains(run("drain", nodes[0], "--ignore-daemonsets", "--timeout=120s"), "evicting pod", "drained")
		time.Sleep(time.Minute) // until the terminating pods are deleted
		run("wait", "deployment/web", "--for=condition=Available", "--timeout=60s")
		if on := used(); slices.Contains(on, nodes[0]) {
			t.Errorf("after the drain of %s, pods are on %v", nodes[0], on)
		}
		contains(run("describe", "node", nodes[0]), "Unschedulable:", "true", "Allocated resources", "Starting kubelet")
		run("uncordon", nodes[0])

		run("taint", "nodes", nodes[1], "hardware=broken:NoExecute")
		time.Sleep(time.Minute)
		run("wait", "pods", "-l", "app=web", "--for=condition=Ready", "--timeout=60s")
		if on := used(); slices.Contains(on, nodes[1]) {
			t.Errorf("after the taint of %s, pods are on %v", nodes[1], on)
		}
		contains(run("describe", "node", nodes[1]), "hardware=broken:NoExecute")
		run("taint", "nodes", nodes[1], "hardware-")
		run("delete", "deployment", "web", "--timeout=60s")
		run("wait", "pods", "-l", "app=web", "--for=delete", "--timeout=60s")
	})
}
