package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/leader"
)

var key = client.Key{Namespace: "system", Name: "example"}

var must = require.NoError

func newClient(t *testing.T, s *apitest.Server) client.Client {
	t.Helper()
	c, err := client.New(client.Config{REST: s.REST()})
	must(t, err)
	return c
}

// stage runs candidates, and checks that at most one leads at a time.
type stage struct {
	t       *testing.T
	leading atomic.Int32
	mu      sync.Mutex
	order   []string
}

type candidate struct {
	cancel context.CancelFunc
	ended  chan error
}

func (s *stage) lead(name string, finish time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		s.begin(name)
		<-ctx.Done()
		time.Sleep(finish)
		s.leading.Add(-1)
		return nil
	}
}

func (s *stage) begin(name string) {
	assert.Equalf(s.t, s.leading.Add(1), 1, "%s leads at the same time as another", name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = append(s.order, name)
}

func (s *stage) enter(c client.Client, name string, finish time.Duration) *candidate {
	s.t.Helper()
	e, err := leader.New(leader.Config{Client: c, Lease: key, Identity: name,
		Log: slog.New(slog.NewTextHandler(s.t.Output(), nil))})
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &candidate{cancel, make(chan error, 1)}
	go func() { r.ended <- e.Run(ctx, s.lead(name, finish)) }()
	return r
}

func (s *stage) leader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leading.Load() == 0 {
		return ""
	}
	return s.order[len(s.order)-1]
}

// A leader releases the Lease when its work has ended, and the next candidate then leads without
// delay.
func TestHandOverOnRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t}
		c := newClient(t, apitest.New())
		a := s.enter(c, "a", 3*time.Second)
		synctest.Wait()
		b := s.enter(c, "b", 0)
		time.Sleep(10 * time.Minute)
		require.Equalf(t, s.leader(), "a", "leads")
		a.cancel()
		time.Sleep(2 * time.Second)
		if s.leader() != "a" {
			t.Errorf("the Lease was released before the work had ended: %q leads", s.leader())
		}
		must(t, <-a.ended)
		begin := time.Now()
		synctest.Wait() // without any passage of time
		if s.leader() != "b" || time.Since(begin) != 0 {
			t.Errorf("%q leads after %v", s.leader(), time.Since(begin))
		}
		lease, err := client.Get[coordinationv1.Lease](t.Context(), c, key)
		must(t, err)
		if *lease.Spec.HolderIdentity != "b" || *lease.Spec.LeaseTransitions != 1 ||
			*lease.Spec.LeaseDurationSeconds != 15 {
			t.Errorf("got %+v", lease.Spec)
		}
		b.cancel()
		must(t, <-b.ended)
	})
}

// A leader that crashes is replaced when its Lease has expired, and not earlier, even if its clock
// was wrong.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t}
		c := newClient(t, apitest.New())
		dead, seconds := "dead", int32(20)
		future := metav1.NewMicroTime(time.Now().Add(time.Hour)) // its clock was an hour ahead
		must(t, c.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace,
			Name: key.Name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &dead, LeaseDurationSeconds: &seconds, RenewTime: &future,
				AcquireTime: &future}}))
		a := s.enter(c, "a", 0)
		time.Sleep(19 * time.Second)
		synctest.Wait()
		assert.Equalf(t, s.leader(), "", "leads too soon")
		time.Sleep(2 * time.Second)
		assert.Equalf(t, s.leader(), "a", "leads")
		a.cancel()
		must(t, <-a.ended)
	})
}

// A leader that cannot renew its Lease stops before another candidate may lead.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New()
		var down atomic.Bool
		server.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
			if down.Load() {
				return http.StatusInternalServerError, metav1.StatusReasonInternalError
			}
			return 0, ""
		}})
		s := &stage{t: t}
		a := s.enter(newClient(t, server), "a", 0)
		time.Sleep(time.Minute)
		b := s.enter(newClient(t, server), "b", 0)
		time.Sleep(time.Minute)
		down.Store(true)
		begin := time.Now()
		assert.ErrorIs(t, <-a.ended, leader.ErrLost)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it led for %v", took)
		}
		down.Store(false)
		time.Sleep(16 * time.Second)
		assert.Equalf(t, s.leader(), "b", "leads")
		b.cancel()
		must(t, <-b.ended)
	})
}

// A change of the Lease's labels does not end the term. The deletion of the Lease ends it with
// ErrLost.
func TestDeposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New()
		c := newClient(t, server)
		s := &stage{t: t}
		a := s.enter(c, "a", 0)
		time.Sleep(time.Minute)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		// no other candidate may lead, whenever it starts
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		must(t, c.Patch(t.Context(), lease, label))
		time.Sleep(time.Minute)
		require.Equalf(t, s.leader(), "a", "a label of another client ended its term")
		must(t, c.Delete(t.Context(), lease))
		begin := time.Now()
		if err := <-a.ended; !errors.Is(err, leader.ErrLost) || time.Since(begin) > 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}

// Without permission to watch, candidates poll, as client-go does.
func TestWithoutWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New()
		server.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
			if verb == "list" || verb == "watch" || verb == "GET" && strings.HasSuffix(path, "/leases") {
				return http.StatusForbidden, metav1.StatusReasonForbidden
			}
			return 0, ""
		}})
		c := newClient(t, server)
		s := &stage{t: t}
		a := s.enter(c, "a", 0)
		synctest.Wait()
		b := s.enter(c, "b", 0)
		time.Sleep(time.Minute)
		a.cancel()
		must(t, <-a.ended)
		time.Sleep(3 * time.Second)
		assert.Equalf(t, s.leader(), "b", "leads")
		b.cancel()
		must(t, <-b.ended)
	})
}

// client-go's elector and ours can compete for the same Lease.
func TestWithClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New()
		s := &stage{t: t}
		clientGo := func(name string) *candidate {
			config := server.REST()
			config.ContentType = "application/json"
			c, err := kubernetes.NewForConfig(config)
			must(t, err)
			lock, err := resourcelock.New(resourcelock.LeasesResourceLock, key.Namespace, key.Name, c.CoreV1(),
				c.CoordinationV1(),
				resourcelock.ResourceLockConfig{Identity: name})
			must(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
				RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) { s.begin(name) },
					OnStoppedLeading: func() {},
				},
			})
			must(t, err)
			// client-go's elector releases the Lease while its work is still ending; here, the work
			// has ended before.
			r := &candidate{func() { s.leading.Add(-1); cancel() }, make(chan error, 1)}
			go func() { e.Run(ctx); r.ended <- nil }()
			return r
		}
		theirs := clientGo("theirs")
		time.Sleep(time.Second)
		ours := s.enter(newClient(t, server), "ours", 0)
		time.Sleep(time.Minute)
		require.Equalf(t, s.leader(), "theirs", "leads")
		theirs.cancel()
		<-theirs.ended
		time.Sleep(time.Second)
		assert.Equalf(t, s.leader(), "ours", "leads after theirs")
		again := clientGo("theirs again")
		time.Sleep(time.Minute)
		ours.cancel()
		must(t, <-ours.ended)
		time.Sleep(5 * time.Second) // it polls every two to four and a half seconds
		assert.Equalf(t, s.leader(), "theirs again", "leads after ours")
		again.cancel()
		<-again.ended
		assert.Slice(t, s.order, []string{"theirs", "ours", "theirs again"})
	})
}
