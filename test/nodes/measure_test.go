package nodes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/require"
	"kelson.dev/test/section"
)

// TestMeasureCluster compares a whole cluster on one machine with Kubernetes' own control plane and
// the same node. make bench-cluster runs it. It writes the table into the page that KELSON_DOCS
// names.
func TestMeasureCluster(t *testing.T) {
	docs := os.Getenv("KELSON_DOCS")
	if docs == "" {
		t.Skip("KELSON_DOCS names no page: run make bench-cluster")
	}
	const rounds = 3
	sides := []struct {
		name  string
		start func(*testing.T) *cluster
	}{
		{"kelson serve --node=containers", start},
		{"etcd, kube-apiserver, kube-controller-manager, kube-scheduler; kelson-node", startUpstream},
	}
	found := make([][]figures, len(sides))
	for range rounds {
		for i, s := range sides {
			t.Run(s.name, func(t *testing.T) { found[i] = append(found[i], measure(s.start(t))) })
		}
	}
	if t.Failed() {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, Linux/%s, medians of %d runs:\n\n| | node ready | first pod ready | control plane, resident | node, resident |\n|---|--:|--:|--:|--:|\n",
		time.Now().Format("2 January 2006"), goarch(t), rounds)
	for i, s := range sides {
		median := func(figure func(figures) float64) float64 {
			values := make([]float64, 0, rounds)
			for _, f := range found[i] {
				values = append(values, figure(f))
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		fmt.Fprintf(&b, "| %s | %.1f s | %.1f s | %.0f MiB | %.0f MiB |\n", s.name,
			median(func(f figures) float64 {
				return f.ready.Seconds()
			}), median(func(f figures) float64 { return f.pod.Seconds() }),
			median(func(f figures) float64 {
				return f.control / (1 << 20)
			}), median(func(f figures) float64 { return f.node / (1 << 20) }))
	}
	t.Log("\n" + b.String())
	const begin, end = "<!-- written by make bench-cluster -->\n\n", "\n<!-- end of make bench-cluster -->"
	require.NoError(t, section.Replace(docs, begin, end, b.String()))
}

// figures are the measurements of one run. Memory is in bytes.
type figures struct {
	ready, pod    time.Duration // since the first process was started
	control, node float64
}

func measure(c *cluster) figures {
	c.Helper()
	f := figures{ready: c.ready.Sub(c.began)}
	c.eventually("the default service account exists", 3*time.Minute, func() bool {
		return c.try("get", "serviceaccount", "default", "-o", "name") != ""
	})
	c.kubectl("run", "first", "--image=busybox:test", "--", "sleep", "3600")
	c.kubectl("wait", "pod/first", "--for=condition=Ready", "--timeout=180s")
	f.pod = time.Since(c.began)
	// longer than the five seconds after which kelson returns unused memory
	time.Sleep(10 * time.Second)
	for _, p := range c.server {
		f.control += resident(c.T, p.Pid)
		f.node += ofChildren(c.T, p.Pid)
	}
	if c.node != nil {
		f.node += resident(c.T, c.node.Pid) + ofChildren(c.T, c.node.Pid)
	}
	c.kubectl("delete", "pod", "first", "--grace-period=1", "--timeout=180s")
	return f
}

// resident returns the resident memory of a process.
func resident(t *testing.T, pid int) float64 {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	require.NoError(t, err)
	pages, err := strconv.ParseFloat(strings.Fields(string(content))[1], 64)
	require.NoError(t, err)
	return pages * float64(os.Getpagesize())
}

// ofChildren returns the resident memory of all descendants of a process. It excludes the shims of
// containers, which are children of the machine's first process.
func ofChildren(t *testing.T, pid int) (sum float64) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for child := range strings.FieldsSeq(string(content)) {
			id, err := strconv.Atoi(child)
			require.NoError(t, err)
			sum += resident(t, id) + ofChildren(t, id)
		}
	}
	return sum
}
