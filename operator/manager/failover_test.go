package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
)

// behind is a transport whose watches of pods deliver all events late.
type behind struct {
	http.RoundTripper
	lag time.Duration
}

func (b behind) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "true" && strings.HasSuffix(r.URL.Path, "/pods") {
		resp.Body = lateBody{resp.Body, r.Context(), b.lag}
	}
	return resp, err
}

type lateBody struct {
	io.ReadCloser
	ctx context.Context
	lag time.Duration
}

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	select {
	case <-time.After(b.lag):
	case <-b.ctx.Done():
	}
	return n, err
}

// childOf returns a reconciler that creates one pod for each ConfigMap, unless there is one. The
// pods have generated names, so a reconciler that does not see the first pod creates a second.
func childOf(m *manager.Manager, replica string, done func(string)) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		pods, err := client.List[corev1.Pod](ctx, m.Client(), client.MatchingLabels{"of": req.Name})
		if err != nil || len(pods) > 0 {
			return reconcile.Result{}, err
		}
		err = m.Client().Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%s-%d", req.Name, replica, time.Now().UnixNano()),
			Labels: map[string]string{"of": req.Name},
		}})
		if done != nil {
			done(req.Name)
		}
		return reconcile.Result{}, err
	})
}

// standby starts a replica whose watches are late.
func standby(t *testing.T, s *apitest.Server, name string, lag time.Duration, gate func(client.Client) controller.Gate,
	done func(string)) (m *manager.Manager, stop func() error) {
	t.Helper()
	cfg := manager.Config{
		REST: &rest.Config{Host: s.REST().Host, Transport: behind{s, lag}}, Name: "test",
		Log:      slog.New(slog.DiscardHandler),
		Election: &leader.Config{Lease: client.Key{Namespace: "system", Name: "test"}, Identity: name},
	}
	if gate != nil {
		cfg.Election = nil
	}
	m, err := manager.New(cfg)
	must(t, err)
	cc := controller.Config{Name: "child", Reconciler: childOf(m, name, done), Sources: []controller.Source{
		&controller.Kind{Informers: m.Informers(), Object: &corev1.ConfigMap{}},
		&controller.Kind{Informers: m.Informers(), Object: &corev1.Pod{},
			Handler: func(controller.Event, func(reconcile.Request)) {}},
	}}
	if gate != nil {
		cc.Gate, cc.EveryReplica = gate(m.LiveClient()), true
		m.AddShards(cc.Gate.(*leader.Shards))
	}
	must(t, m.AddController(cc))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return m, sync.OnceValue(func() error { cancel(); return <-ended })
}

// With watches that lag behind the watch of the Lease, a new leader does not repeat the last work
// of the previous one.
func TestFailoverReadsEarlierWrites(t *testing.T) {
	for _, lag := range []time.Duration{0, 500 * time.Millisecond, 30 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.New()
				done := make(chan string, 1)
				a, stopA := standby(t, s, "a", 0, nil, func(name string) { done <- name })
				time.Sleep(time.Second)
				b, stopB := standby(t, s, "b", lag, nil, nil)
				time.Sleep(time.Minute)
				must(t, a.LiveClient().Create(t.Context(), configMap("one")))
				<-done // its child exists
				must(t, stopA())
				<-b.Elected()
				time.Sleep(2 * time.Minute)
				assert.Lenf(t, s.Objects("pods"), 1, "children")
				must(t, stopB())
			})
		})
	}
}

// What another replica writes is in the cache when the watch delivers it, like the writes of
// others: with and without election.
func TestWritesOfOtherReplicas(t *testing.T) {
	for _, election := range []bool{false, true} {
		t.Run(fmt.Sprintf("election %t", election), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.New()
				replica := func(name string, lag time.Duration) (*manager.Manager, func() error) {
					cfg := manager.Config{
						REST: &rest.Config{Host: s.REST().Host, Transport: behind{s, lag}}, Name: "test",
						Log: slog.New(slog.DiscardHandler),
					}
					if election {
						cfg.Election = &leader.Config{Lease: client.Key{Namespace: "system", Name: "test"},
							Identity: name}
					}
					m, err := manager.New(cfg)
					must(t, err)
					must(t, m.AddController(controller.Config{
						Name: "none", EveryReplica: true,
						Sources: []controller.Source{&controller.Kind{Informers: m.Informers(), Object: &corev1.Pod{}}},
						Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
							return reconcile.Result{}, nil
						}),
					}))
					ctx, cancel := context.WithCancel(context.Background())
					ended := make(chan error, 1)
					go func() { ended <- m.Run(ctx) }()
					return m, func() error { cancel(); return <-ended }
				}
				a, stopA := replica("a", 0)
				b, stopB := replica("b", 10*time.Second)
				time.Sleep(time.Minute)
				must(t, a.Client().Create(t.Context(),
					&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}))
				expect := func(m *manager.Manager, want int, when string) {
					t.Helper()
					pods, err := client.List[corev1.Pod](t.Context(), m.Client())
					must(t, err)
					if len(pods) != want {
						t.Errorf("%s: %d pods, want %d", when, len(pods), want)
					}
				}
				expect(a, 1, "the writer")
				expect(b, 0, "the other replica, before its watch has the write")
				time.Sleep(time.Minute)
				expect(b, 1, "the other replica, after that")
				must(t, stopA())
				must(t, stopB())
			})
		})
	}
}

// The same for objects that a replica takes over when replicas share the work.
func TestShardHandoverReadsEarlierWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		gate := func(name string) func(client.Client) controller.Gate {
			return func(c client.Client) controller.Gate {
				shards, err := leader.NewShards(leader.ShardsConfig{
					Client: c, Group: client.Key{Namespace: "system", Name: "test"}, Identity: name,
					Log: slog.New(slog.DiscardHandler),
				})
				must(t, err)
				return shards
			}
		}
		done := make(chan string, 100)
		told := func(name string) { done <- name }
		a, stopA := standby(t, s, "a", 0, gate("a"), told)
		_, stopB := standby(t, s, "b", 500*time.Millisecond, gate("b"), told)
		time.Sleep(time.Minute)
		const all = 40
		for n := range all {
			must(t, a.LiveClient().Create(t.Context(), configMap(fmt.Sprint("cm", n))))
		}
		for range all / 4 { // some objects are done, and a stops
			<-done
		}
		must(t, stopA())
		time.Sleep(time.Minute)
		children := map[string]int{}
		for _, pod := range s.Objects("pods") {
			children[pod["metadata"].(map[string]any)["labels"].(map[string]any)["of"].(string)]++
		}
		for n := range all {
			if name := fmt.Sprint("cm", n); children[name] != 1 {
				t.Errorf("%s has %d children", name, children[name])
			}
		}
		must(t, stopB())
	})
}

// The same in an additional cluster. A cluster that does not respond does not delay the new leader
// or the other clusters. Its objects are not reconciled until it responds.
func TestFailoverOfClusters(t *testing.T) {
	for name, cut := range map[string]bool{"away": true, "late": false} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { failoverOfClusters(t, cut) }) })
	}
}

func failoverOfClusters(t *testing.T, cut bool) {
	hub := apitest.New()
	east := apitest.New()
	link := &cuttable{RoundTripper: behind{east, 5 * time.Second}}
	start := func(name string, member http.RoundTripper, done func(string)) (*manager.Manager, func() error) {
		m, err := manager.New(manager.Config{
			REST: hub.REST(), Name: "test", Log: slog.New(slog.DiscardHandler),
			Election: &leader.Config{Lease: client.Key{Namespace: "system", Name: "test"}, Identity: name},
		})
		must(t, err)
		c, err := m.NewController(controller.Config{Name: "child", Reconciler: childOf(m, name, done)})
		must(t, err)
		must(t, m.OnCluster(func(cluster *manager.Cluster) error {
			_, err := c.Watch(&controller.Kind{Informers: cluster.Informers(), Cluster: cluster.Name(),
				Object: &corev1.ConfigMap{}})
			if err == nil {
				_, err = c.Watch(&controller.Kind{Informers: cluster.Informers(), Cluster: cluster.Name(),
					Object:  &corev1.Pod{},
					Handler: func(controller.Event, func(reconcile.Request)) {}})
			}
			return err
		}))
		_, err = m.Engage("east", &rest.Config{Host: east.REST().Host, Transport: member})
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		return m, sync.OnceValue(func() error { cancel(); return <-ended })
	}
	children := func(s *apitest.Server) string {
		var names []string
		for _, pod := range s.Objects("pods") {
			names = append(names, pod["metadata"].(map[string]any)["labels"].(map[string]any)["of"].(string))
		}
		return strings.Join(names, " ")
	}
	direct, err := client.New(client.Config{REST: east.REST()})
	must(t, err)
	done := make(chan string, 10)
	_, stopA := start("a", east, func(name string) { done <- name })
	time.Sleep(time.Second)
	b, stopB := start("b", link, nil)
	time.Sleep(time.Minute)
	must(t, direct.Create(t.Context(), configMap("one")))
	<-done
	link.cut.Store(cut)
	must(t, stopA())
	begin := time.Now()
	<-b.Elected()
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it leads after %v", took)
	}
	must(t, b.LiveClient().Create(t.Context(), configMap("hub")))
	time.Sleep(time.Minute)
	assert.Equalf(t, children(hub), "hub", "while the member is away, the hub has children")
	link.cut.Store(false)
	must(t, direct.Create(t.Context(), configMap("two")))
	time.Sleep(2 * time.Minute)
	assert.Equalf(t, children(east), "one two", "the member has children")
	must(t, stopB())
}

// cuttable is a transport that can be cut.
type cuttable struct {
	http.RoundTripper
	cut atomic.Bool
}

func (c *cuttable) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return nil, errors.New("cut off")
	}
	return c.RoundTripper.RoundTrip(r)
}

// A replica that has lost its part of the work cancels running reconciles immediately,
// independently of other parts; and a reconcile that does not stop in time keeps its objects until
// the Lease expires.
func TestShardsThatCannotStop(t *testing.T) {
	sharded := func(t *testing.T, transport http.RoundTripper, grace time.Duration,
		r reconcile.Func) (m *manager.Manager, stop func(), ended chan error) {
		m, err := manager.New(manager.Config{
			REST: &rest.Config{Host: "http://apitest", Transport: transport}, Name: "test", GracePeriod: grace,
			Log: slog.New(slog.DiscardHandler),
		})
		must(t, err)
		shards, err := leader.NewShards(leader.ShardsConfig{
			Client: m.LiveClient(), Group: client.Key{Namespace: "system", Name: "test"},
			Log: slog.New(slog.DiscardHandler),
		})
		must(t, err)
		m.AddShards(shards)
		must(t, m.AddController(controller.Config{Name: "test", Gate: shards, EveryReplica: true, Reconciler: r,
			Sources: []controller.Source{&controller.Kind{Informers: m.Informers(), Object: &corev1.ConfigMap{}}}}))
		ctx, cancel := context.WithCancel(context.Background())
		ended = make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		return m, cancel, ended
	}
	t.Run("lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := apitest.New()
			link := &cuttable{RoundTripper: s}
			cancelled := make(chan time.Time, 1)
			m, _, ended := sharded(t, link, 0, func(ctx context.Context, _ reconcile.Request) (reconcile.Result,
				error) {
				<-ctx.Done()
				cancelled <- time.Now()
				return reconcile.Result{}, ctx.Err()
			})
			m.Add(manager.Func(func(ctx context.Context) error { // ignores its context
				<-ctx.Done()
				time.Sleep(30 * time.Second)
				return nil
			}))
			must(t, m.LiveClient().Create(t.Context(), configMap("one")))
			time.Sleep(time.Minute)
			link.cut.Store(true)
			begin := time.Now()
			if took := (<-cancelled).Sub(begin); took > 10*time.Second {
				t.Errorf("its reconcile continued for %v", took)
			}
			assert.ErrorIs(t, <-ended, leader.ErrLost)
		})
	})
	t.Run("stuck", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := apitest.New()
			end := make(chan struct{})
			m, stop, ended := sharded(t, s, time.Second,
				func(context.Context, reconcile.Request) (reconcile.Result, error) {
					<-end
					return reconcile.Result{}, nil
				})
			must(t, m.LiveClient().Create(t.Context(), configMap("one")))
			time.Sleep(time.Minute)
			stop()
			assert.ErrorIs(t, <-ended, leader.ErrStillWorking)
			assert.Equalf(t, len(s.Objects("leases")), 1, "the Lease was released")
			close(end)
		})
	})
}
