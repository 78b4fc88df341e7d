package etcd_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

// A server is killed and restarted at random, and its clients observe a consistent history: keys
// are linearizable, acknowledged writes are not lost, and watches have no gaps.
func TestKilledServer(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := t.TempDir()
	_, port, _ := strings.Cut(freeAddress(t), ":")
	args := []string{"--node=none", "--secure-port", port}
	s := serve(t, dir, args...)
	seed := randomtest.Seed(t)
	connect(t, s).run(seed, func(r *rand.Rand) {
		for range storetest.Rounds(t, 5) {
			time.Sleep(time.Duration(100+r.IntN(900)) * time.Millisecond)
			s.kill()
			s = serve(t, dir, args...)
		}
		time.Sleep(time.Second)
	})
}

// A server that stops gives up the Lease of the controllers, so that another server runs them at
// once.
func TestStoppedServer(t *testing.T) {
	c := startCluster(t, 1, "http")
	c.healthy(t)
	s := serve(t, t.TempDir(), "--etcd-servers", strings.Join(c.endpoints(), ","), "--node=none")
	state := open(t, c, "", 0)
	holder := func() string {
		sn, err := state.Fresh(t.Context())
		require.NoError(t, err)
		lease := sn.Get(store.Key{Resource: "leases.coordination.k8s.io", Namespace: "kube-system",
			Name: "kelson-controllers"})
		if lease == nil {
			return ""
		}
		var object struct {
			Spec struct{ HolderIdentity string }
		}
		require.NoError(t, json.Unmarshal(lease.Data, &object))
		return object.Spec.HolderIdentity
	}
	require.Eventually(t, "the server has the Lease", func() bool { return holder() != "" })
	require.NoError(t, s.process.Process.Signal(os.Interrupt))
	assert.NoErrorf(t, s.process.Wait(), "\n%s", s.log.String())
	if got := holder(); got != "" {
		t.Errorf("the holder is still %q\n%s", got, s.log.String())
	}
}

// Members of etcd and a server are killed, paused and isolated, and clients of several servers
// observe a consistent history. The Lease of the controllers is handed over.
func TestServersUnderFaults(t *testing.T) {
	require.Long(t, "takes half a minute")
	t.Parallel() // it mostly waits
	c := startCluster(t, 3, "http")
	c.healthy(t)
	dir := t.TempDir()
	flags := []string{"--etcd-servers", strings.Join(c.endpoints(), ","), "--etcd-timeout", "3s", "--node=simulated"}
	var servers []*server
	for i, name := range []string{"a", "b", "c"} {
		own := filepath.Join(dir, name)
		if i > 0 {
			require.NoError(t, os.CopyFS(filepath.Join(own, "data", "pki"),
				os.DirFS(filepath.Join(dir, "a", "data", "pki"))))
		}
		servers = append(servers, serve(t, own, flags...))
	}
	seed := randomtest.Seed(t)
	connect(t, servers...).run(seed, func(r *rand.Rand) {
		for i := range storetest.Rounds(t, 5) {
			if i%3 == 2 { // a server instead of a member
				s := servers[r.IntN(len(servers))]
				s.process.Process.Signal(syscall.SIGSTOP)
				time.Sleep(time.Duration(500+r.IntN(2000)) * time.Millisecond)
				s.process.Process.Signal(syscall.SIGCONT)
				t.Log("a server paused")
				continue
			}
			t.Log(harm(t, c, r))
			time.Sleep(time.Duration(300+r.IntN(1200)) * time.Millisecond)
		}
		c.healthy(t)
	})

	holder := func(by *server) string {
		out, _ := by.try("", "get", "lease", "-n", "kube-system", "kelson-controllers", "-o",
			"jsonpath={.spec.holderIdentity}")
		return out
	}
	scaled := func(by *server, replicas string) {
		t.Helper()
		by.kubectl("", "scale", "deployment", "web", "--replicas", replicas)
		require.Eventually(t, "controllers run", func() bool {
			return by.kubectl("", "get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}") == replicas
		})
	}
	stopped := func(s *server) {
		s.process.Process.Signal(syscall.SIGTERM)
		s.process.Wait()
	}
	// If one server is stopped and another hangs, the third has or gets the Lease.
	a, b, last := servers[0], servers[1], servers[2]
	last.kubectl("", "create", "deployment", "web", "--image=web", "--replicas=1")
	stopped(a)
	b.process.Process.Signal(syscall.SIGSTOP)
	scaled(last, "2")
	before := holder(last)
	// When the hanging server continues, it gets the Lease only after the third is stopped.
	b.process.Process.Signal(syscall.SIGCONT)
	require.Eventually(t, "the server that hung answers", func() bool {
		_, err := b.try("", "get", "--raw", "/readyz")
		return err == nil
	})
	if now := holder(b); now != before {
		t.Errorf("the Lease was %q's and is %q's", before, now)
	}
	stopped(last)
	began := time.Now()
	require.Eventually(t, "the Lease is handed over", func() bool { now := holder(b); return now != "" && now != before })
	t.Logf("the Lease was handed over within %v", time.Since(began))
	scaled(b, "3")
}

// While etcd has the alarm NOSPACE, /readyz fails and says what helps, and writes get 503. Reads
// and /livez continue to work. When the alarm is disarmed, the server is ready again.
func TestAlarmOfSpace(t *testing.T) {
	c := startCluster(t, 1, "http")
	c.healthy(t)
	s := serve(t, t.TempDir(), "--etcd-servers", strings.Join(c.endpoints(), ","), "--node=none")
	get := func(path string) string {
		out, _ := s.command(t.Context(), "get", "--raw", path).CombinedOutput()
		return string(out)
	}
	require.Eventually(t, "the server is ready", func() bool { return strings.HasPrefix(get("/readyz"), "ok") })

	etcd := c.dial(t)
	status, err := etcd.Status(t.Context(), c.members[0].client)
	require.NoError(t, err)
	alarm := &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId,
		Alarm: etcdserverpb.AlarmType_NOSPACE}
	_, err = etcdserverpb.NewMaintenanceClient(etcd.ActiveConnection()).Alarm(t.Context(), alarm)
	require.NoError(t, err)
	require.Eventually(t, "the server is not ready", func() bool {
		return strings.Contains(get("/readyz?verbose"), "[-]etcd-space failed")
	})
	if out := get("/livez"); !strings.HasPrefix(out, "ok") {
		t.Errorf("livez: %s", out)
	}
	if out, err := s.command(t.Context(), "create", "configmap", "refused").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "full") {
		t.Errorf("a write: %v, %s", err, out)
	}
	if out, err := s.command(t.Context(), "get", "namespaces").CombinedOutput(); err != nil {
		t.Errorf("a read: %v, %s", err, out)
	}

	_, err = etcd.AlarmDisarm(t.Context(), &clientv3.AlarmMember{MemberID: status.Header.MemberId,
		Alarm: etcdserverpb.AlarmType_NOSPACE})
	require.NoError(t, err)
	require.Eventually(t, "the server is ready again", func() bool { return strings.HasPrefix(get("/readyz"), "ok") })
}
