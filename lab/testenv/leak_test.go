package testenv_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// footprint is the number of goroutines and open files of the process, and the bytes of its heap.
type footprint struct {
	goroutines, files int
	heap              uint64
}

func measure() footprint {
	runtime.GC()
	runtime.GC() // memory released by finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f := footprint{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.files = len(entries)
	}
	return f
}

// live starts a control plane or fork, opens a watch, writes, receives the event, and stops with
// the watch still open.
func live(tb testing.TB, from *store.Snapshot) {
	plane, err := controlplane.Start(context.Background(),
		controlplane.Config{From: from, Node: controlplane.Simulated{Lease: controlplane.NodeLease}})
	require.NoError(tb, err)
	defer plane.Stop()
	clients, err := kubernetes.NewForConfig(plane.RESTConfig())
	require.NoError(tb, err)
	maps := clients.CoreV1().ConfigMaps("default")
	watch, err := maps.Watch(tb.Context(), metav1.ListOptions{})
	require.NoError(tb, err)
	defer watch.Stop()
	_, err = maps.Create(tb.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		metav1.CreateOptions{})
	require.NoError(tb, err)
	<-watch.ResultChan()
}

// A thousand control planes, one after the other, leave no goroutines, files or memory behind.
func TestLeaksNothing(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	base, err := controlplane.Start(context.Background(), controlplane.Config{})
	require.NoError(t, err)
	defer base.Stop()
	lives := func(n int) {
		for i := range n {
			if i%2 == 0 {
				live(t, nil)
			} else {
				live(t, base.Store().Snapshot())
			}
		}
	}
	lives(10) // creates everything that exists once per process
	before := measure()
	lives(n)
	after := measure()
	const most = 2 << 20 // bytes of heap that may remain
	left := func() bool { return after.goroutines > before.goroutines || after.heap > before.heap+most }
	for deadline := time.Now().Add(time.Minute); left() && time.Now().Before(deadline); after = measure() {
		// the last streams and short timers end asynchronously
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("before: %+v; after %d control planes: %+v", before, n, after)
	if after.goroutines > before.goroutines {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines leaked:\n%s", after.goroutines-before.goroutines, stacks[:runtime.Stack(stacks, true)])
	}
	if after.files > before.files {
		t.Errorf("%d file descriptors leaked", after.files-before.files)
	}
	if after.heap > before.heap+most {
		t.Errorf("%d KiB were left, more than %d", (after.heap-before.heap)>>10, most>>10)
	}
}

// BenchmarkLife measures a control plane from its start to its end, with a write and its event, and
// reports leaked goroutines, files and memory.
func BenchmarkLife(b *testing.B) {
	base, err := controlplane.Start(context.Background(), controlplane.Config{})
	require.NoError(b, err)
	defer base.Stop()
	for _, bench := range []struct {
		name string
		from func() *store.Snapshot
	}{
		{"new", func() *store.Snapshot { return nil }},
		{"fork", base.Store().Snapshot},
	} {
		b.Run(bench.name, func(b *testing.B) {
			live(b, bench.from())
			before := measure()
			b.ReportAllocs()
			for b.Loop() {
				live(b, bench.from())
			}
			after := measure()
			b.ReportMetric(float64(after.goroutines-before.goroutines), "goroutines-left")
			b.ReportMetric((float64(after.heap)-float64(before.heap))/1024, "KiB-left")
			b.Logf("%d lives: before %+v, after %+v", b.N, before, after)
		})
	}
}
