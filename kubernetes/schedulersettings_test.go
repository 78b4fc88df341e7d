package kubernetes_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	extender "k8s.io/kube-scheduler/extender/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/scheduler"
	"kelson.dev/lab/testenv"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func writeScheduler(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// Two profiles with different plugins. One spreads pods, the other packs them.
func TestProfiles(t *testing.T) {
	file := writeScheduler(t, header+`
leaderElection: {leaderElect: true}
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 100}]}
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]
`)
	settings, err := scheduler.Load(file)
	require.NoError(t, err)
	assert.Slicef(t, settings.Names(), []string{"default-scheduler", "packing"}, "names")
	assert.Slicef(t, settings.Ignored(), []string{"leaderElection"}, "ignored")
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads(), testenv.SchedulerConfig(file))
		addNode(t, env, "a", "one", nil)
		addNode(t, env, "b", "two", nil)
		addPod(t, env, "first", "2", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
		})
		addPod(t, env, "packed", "1", func(p *corev1.Pod) { p.Spec.SchedulerName = "packing" })
		addPod(t, env, "spread", "1", nil)
		if packed, spread := verdict(t, env, "packed"), verdict(t, env, "spread"); packed != "a" || spread != "b" {
			t.Errorf("packed on %s, spread on %s", packed, spread)
		}
	})
}

// An extender's webhook filters nodes. Extenders are called over the network, so this test runs in
// real time.
func TestExtender(t *testing.T) {
	only := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extender.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil || args.NodeNames == nil {
			http.Error(w, "no names", http.StatusBadRequest)
			return
		}
		result := extender.ExtenderFilterResult{NodeNames: &[]string{}, FailedNodes: extender.FailedNodesMap{}}
		for _, name := range *args.NodeNames {
			if name == "b" {
				*result.NodeNames = append(*result.NodeNames, name)
			} else {
				result.FailedNodes[name] = "not b"
			}
		}
		_ = json.NewEncoder(w).Encode(result)
	})
	server := httptest.NewServer(only)
	defer server.Close()
	env := testenv.New(t, testenv.Workloads(), testenv.SchedulerConfig(
		writeScheduler(t, header+"extenders:\n- {urlPrefix: '"+server.URL+"', filterVerb: filter, nodeCacheCapable: true}\n")))
	for _, name := range []string{"a", "b"} {
		createNode(t, env, name, "one", nil)
	}
	createPod(t, env, "p", "1", nil)
	env.Eventually(t, time.Minute, func() bool { return verdict(t, env, "p") == "b" })
}

// The scheduler stops reading the response of an extender that does not end, and schedules no pod
// by it.
func TestEndlessExtender(t *testing.T) {
	const all = 256 << 20
	sent := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		written, chunk := 0, make([]byte, 64<<10)
		_, _ = w.Write([]byte(`{"error":"`))
		for i := range chunk {
			chunk[i] = 'x'
		}
		for written < all {
			n, err := w.Write(chunk)
			if written += n; err != nil {
				break
			}
		}
		select {
		case sent <- written:
		default:
		}
	}))
	defer server.Close()
	env := testenv.New(t, testenv.Workloads(), testenv.SchedulerConfig(
		writeScheduler(t, header+"extenders:\n- {urlPrefix: '"+server.URL+
			"', filterVerb: filter, nodeCacheCapable: true, httpTimeout: 10m}\n")))
	createNode(t, env, "a", "one", nil)
	createPod(t, env, "p", "1", nil)
	if n := <-sent; n >= all {
		t.Errorf("the scheduler read %d MiB", n>>20)
	}
	if node := verdict(t, env, "p"); node == "a" {
		t.Error("the pod was scheduled")
	}
}

// A bad file causes a one-line error that names the file and the cause.
func TestLoadErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "Object 'Kind' is missing"},
		{"profiles: [", "yaml"},
		{"apiVersion: kubescheduler.config.k8s.io/v1\nkind: Other\n", "no kind \"Other\" is registered"},
		{"apiVersion: kubescheduler.config.k8s.io/v1beta9\nkind: KubeSchedulerConfiguration\n", "v1beta9"},
		{header + "profile: []\n", "unknown field \"profile\""},
		{header + "parallelism: -1\n", "parallelism"},
		{header + "profiles: [{schedulerName: x}, {schedulerName: x}]\n", "Duplicate value"},
		{header + "profiles: [{plugins: {filter: {enabled: [{name: Nonsense}]}}}]\n", "Nonsense"},
		{header + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Nonsense}}}]}]\n",
			"Nonsense"},
		{header + "extenders: [{filterVerb: filter, weight: -1, prioritizeVerb: x, urlPrefix: 'http://x'}]\n",
			"weight"},
	} {
		file := writeScheduler(t, test.text)
		_, err := scheduler.Load(file)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), file) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", test.text, err, test.want)
		}
	}
	_, err := scheduler.Load("/nonexistent")
	assert.ErrorContainsf(t, err, "/nonexistent", "missing file")
}
