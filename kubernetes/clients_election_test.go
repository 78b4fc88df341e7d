package kubernetes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// candidate runs for leader in the background.
type candidate struct {
	name    string
	leads   chan struct{} // closed when the candidate becomes leader
	ended   chan struct{}
	retire  context.CancelFunc
	traffic lines
}

// diary records in which order candidates began to lead and were told to stop.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// run starts a candidate. If it resigns, it releases the lease when it ends.
func run(t *testing.T, config *rest.Config, name string, resigns bool, d *diary) *candidate {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &candidate{name: name, leads: make(chan struct{}), ended: make(chan struct{}), retire: func() {
		d.write(name + " retires")
		cancel()
	}}
	own := rest.CopyConfig(config)
	own.Dial = c.traffic.dial
	client, err := kubernetes.NewForConfig(own)
	require.NoError(t, err)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "leader"}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: 2 * time.Second, RenewDeadline: 1500 * time.Millisecond, RetryPeriod: 100 * time.Millisecond,
		ReleaseOnCancel: resigns,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { d.write(name + " leads"); close(c.leads) },
			OnStoppedLeading: func() {},
		},
	})
	require.NoError(t, err)
	go func() { defer close(c.ended); elector.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-c.ended })
	return c
}

func waitFor(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("not seen: " + what)
	}
}

// A lease changes hands when its holder resigns, and when its holder does not renew it in time.
// There is never more than one leader.
func TestLeaderElection(t *testing.T) {
	require.Long(t, "takes seconds")
	config := overPort(t)
	var d diary
	first := run(t, config, "first", true, &d)
	waitFor(t, "first leads", first.leads)
	second := run(t, config, "second", false, &d)
	first.retire()
	waitFor(t, "first ended", first.ended)
	waitFor(t, "second leads", second.leads)

	lease, err := clients(t, config).CoordinationV1().Leases("default").Get(t.Context(), "leader", metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != "second" || *lease.Spec.LeaseTransitions != 1 {
		t.Errorf("lease %+v, %v", lease.Spec, err)
	}
	renewed := lease.Spec.RenewTime.Time
	third := run(t, config, "third", true, &d)
	second.retire() // without releasing the lease
	waitFor(t, "second ended", second.ended)
	waitFor(t, "third leads", third.leads)
	if passed := time.Since(renewed); passed < 2*time.Second {
		t.Errorf("the lease was taken %v after it was renewed", passed)
	}
	// client-go releases the lease before it calls OnStoppedLeading, so the next leader can begin
	// before that call.
	want := []string{"first leads", "first retires", "second leads", "second retires", "third leads"}
	d.mu.Lock()
	defer d.mu.Unlock()
	assert.Slicef(t, d.lines, want, "diary")
}
