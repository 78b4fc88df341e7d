package kubernetes_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
)

// kubectl top shows the declared usage of simulated pods and their node, and a
// HorizontalPodAutoscaler made by kubectl autoscale follows it.
func TestTopAndAutoscale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads(), testenv.Nodes(controlplane.Simulated{}))
		p := &clientsPlane{t, env.RESTConfig()}
		run := func(args ...string) string {
			t.Helper()
			out, err := p.kubectl("", args...)
			if err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			return out
		}
		// The clock of a bubble starts at midnight of 2000-01-01, which is the start of a period.
		const load = "every 40m: 0s 90m/replicas, 10m 450m/replicas, 20m 90m/replicas"
		if out, err := p.kubectl(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},
			"template":{"metadata":{"labels":{"app":"web"},"annotations":{"usage.kelson.dev/cpu":"`+load+`","usage.kelson.dev/memory":"64Mi"}},
			"spec":{"containers":[{"name":"web","image":"web","resources":{"requests":{"cpu":"200m"}}}]}}}}`, "apply", "-f", "-"); err != nil {
			t.Fatal(err, out)
		}
		time.Sleep(time.Minute)
		out := run("top", "pods")
		if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 2 ||
			!strings.Contains(lines[1], "90m") || !strings.Contains(lines[1], "64Mi") {
			t.Errorf("top pods:\n%s", out)
		}
		if out := run("top", "pods", "--containers", "-l", "app=web"); !strings.Contains(out, "web ") ||
			!strings.Contains(out, "90m") {
			t.Errorf("top pods --containers:\n%s", out)
		}
		if out := run("top", "nodes"); !strings.Contains(out, "kelson") || !strings.Contains(out, "90m") ||
			!strings.Contains(out, "64Mi") {
			t.Errorf("top nodes:\n%s", out)
		}
		if out := run("get", "pods.metrics.k8s.io"); !strings.Contains(out, "CPU") || !strings.Contains(out, "15s") {
			t.Errorf("get:\n%s", out)
		}
		run("autoscale", "deployment", "web", "--min=1", "--max=4", "--cpu=50%")
		replicas := func() string { return run("get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}") }
		time.Sleep(5 * time.Minute)
		assert.Equalf(t, replicas(), "1", "replicas at 45%% of the request")
		time.Sleep(7 * time.Minute) // since 13 minutes
		assert.Equalf(t, replicas(), "4", "replicas with 450m, want the maximum")
		if out := run("get", "hpa", "web"); !strings.Contains(out, "/50%") || strings.Contains(out, "<unknown>") {
			t.Errorf("get hpa:\n%s", out)
		}
		time.Sleep(15 * time.Minute) // at 28 minutes, the stabilization window of 5 minutes is over
		assert.Equalf(t, replicas(), "1", "replicas after the peak")
	})
}

// metrics.k8s.io has OpenAPI documents, and the role view allows reading it.
func TestMetricsAreDescribed(t *testing.T) {
	p := startClients(t, controlplane.Config{Node: controlplane.Simulated{Lease: controlplane.NodeLease}})
	out, err := p.kubectl("", "explain", "pods", "--api-version=metrics.k8s.io/v1beta1", "--recursive")
	if err != nil || !strings.Contains(out, "PodMetrics") || !strings.Contains(out, "containers") ||
		!strings.Contains(out, "usage") {
		t.Errorf("explain: %v\n%s", err, out)
	}
	for _, path := range []string{"/openapi/v3/apis/metrics.k8s.io/v1beta1", "/openapi/v2"} {
		out, err := p.kubectl("", "get", "--raw", path)
		var doc struct {
			Paths map[string]map[string]any `json:"paths"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &doc)
		}
		require.NoError(t, err)
		for _, path := range []string{"nodes", "nodes/{name}", "namespaces/{namespace}/pods/{name}", "pods"} {
			item := doc.Paths["/apis/metrics.k8s.io/v1beta1/"+path]
			if item["get"] == nil || item["post"] != nil || item["put"] != nil || item["delete"] != nil {
				t.Errorf("%s: %v", path, item)
			}
		}
	}
	if out, err := p.kubectl("", "create", "clusterrolebinding", "reader", "--clusterrole=view",
		"--user=reader"); err != nil {
		t.Fatal(err, out)
	}
	until(t, func() bool {
		out, err := p.kubectl("", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes", "--as=reader")
		return err == nil && strings.Contains(out, "NodeMetricsList")
	})
}

// Metrics that other programs provide replace the built-in ones: an APIService with a Service, or a
// definition.
func TestOtherMetricsWin(t *testing.T) {
	p := startClients(t, controlplane.Config{Node: controlplane.Simulated{Lease: controlplane.NodeLease}})
	if out, err := p.kubectl("", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"); err != nil ||
		!strings.Contains(out, "NodeMetricsList") {
		t.Fatal(err, out)
	}
	if out, err := p.kubectl("", "get", "apiservice", "v1beta1.metrics.k8s.io"); err == nil {
		t.Error("the name of the APIService is taken: ", out)
	}
	if out, err := p.kubectl(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1beta1.metrics.k8s.io"},
		"spec":{"group":"metrics.k8s.io","version":"v1beta1","service":{"namespace":"kube-system","name":"metrics-server"},"insecureSkipTLSVerify":true,
		"groupPriorityMinimum":100,"versionPriority":100}}`, "create", "-f", "-"); err != nil {
		t.Fatal(err, out)
	}
	refused := func() bool {
		_, err := p.kubectl("", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes")
		return err != nil && strings.Contains(err.Error(), "currently unable to handle the request")
	}
	until(t, refused) // the Service does not exist
	if out, err := p.kubectl("", "delete", "apiservice", "v1beta1.metrics.k8s.io"); err != nil {
		t.Fatal(err, out)
	}
	until(t, func() bool { return !refused() })
	if out, err := p.kubectl(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"nodes.metrics.k8s.io",
		"annotations":{"api-approved.kubernetes.io":"unapproved"}},"spec":{"group":"metrics.k8s.io","scope":"Cluster",
		"names":{"plural":"nodes","kind":"NodeMetrics"},"versions":[{"name":"v1beta1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, "create", "-f", "-"); err != nil {
		t.Fatal(err, out)
	}
	if out, err := p.kubectl(`{"apiVersion":"metrics.k8s.io/v1beta1","kind":"NodeMetrics","metadata":{"name":"mine"},"usage":{"cpu":"1"}}`, "create", "-f", "-"); err != nil {
		t.Fatal(err, out)
	}
	if out, err := p.kubectl("", "delete", "crd", "nodes.metrics.k8s.io"); err != nil {
		t.Fatal(err, out)
	}
	until(t, func() bool {
		out, err := p.kubectl("", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes/kelson")
		return err == nil && strings.Contains(out, "NodeMetrics")
	})
}

// until waits until a condition holds.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not true after 20 seconds")
		}
	}
}
