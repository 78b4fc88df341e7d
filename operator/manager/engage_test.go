package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) with(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			found = append(found, line)
		}
	}
	return found
}

// fleet has a manager with one controller for the ConfigMaps of all its clusters.
type fleet struct {
	*manager.Manager
	controller *controller.Controller
	own        *apitest.Server
	log        lines

	mu   sync.Mutex
	seen []string
}

func (f *fleet) saw(ctx context.Context, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, reconcile.Cluster(ctx)+":"+what)
}

func (f *fleet) visits() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	f.seen = nil
	slices.Sort(seen)
	return seen
}

// newFleet returns a fleet. Its controller calls the function set for an object. If there is none,
// it records the state that it reads.
func newFleet(t *testing.T, cfg manager.Config, special func(ctx context.Context,
	req reconcile.Request) (bool, reconcile.Result, error)) *fleet {
	t.Helper()
	f := &fleet{own: apitest.New()}
	cfg.REST, cfg.Name, cfg.GracePeriod = hosted(f.own, "own"), "test", 10*time.Second
	cfg.Log = slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	f.Manager, err = manager.New(cfg)
	must(t, err)
	f.controller, err = f.NewController(controller.Config{Name: "test", Kind: "ConfigMap", Concurrency: 4,
		Reconciler: reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				if special != nil {
					if is, result, err := special(ctx, req); is {
						return result, err
					}
				}
				cm, err := client.Get[corev1.ConfigMap](ctx, f.Client(), req.NamespacedName)
				if err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				f.saw(ctx, cm.Name)
				return reconcile.Result{}, nil
			})})
	must(t, err)
	must(t, f.OnCluster(func(cluster *manager.Cluster) error {
		_, err := f.controller.Watch(&controller.Kind{Informers: cluster.Informers(), Cluster: cluster.Name(),
			Object: &corev1.ConfigMap{}})
		return err
	}))
	return f
}

// start runs the manager until the returned function is called.
func (f *fleet) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return func() { cancel(); must(t, <-ended) }
}

func (f *fleet) ready(t *testing.T) (int, string) {
	t.Helper()
	return get(t, f.HealthHandler(), "/readyz?verbose")
}

// hosted returns a configuration with its own host name for a server.
func hosted(rt http.RoundTripper, host string) *rest.Config {
	return &rest.Config{Host: "http://" + host, Transport: rt}
}

func newServer(t *testing.T, names ...string) *apitest.Server {
	t.Helper()
	s := apitest.New()
	c, err := client.New(client.Config{REST: s.REST()})
	must(t, err)
	for _, name := range names {
		must(t, c.Create(t.Context(), configMap(name)))
	}
	return s
}

// goroutines counts the goroutines. runtime.NumGoroutine may still count one that has ended.
func goroutines() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "\n\ngoroutine ") + 1
}

// Disengaging a cluster removes everything that existed for it, and nothing else.
func TestDisengage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan error, 1)
		f := newFleet(t, manager.Config{}, func(ctx context.Context, req reconcile.Request) (bool, reconcile.Result,
			error) {
			switch req.Name {
			case "later":
				return true, reconcile.Result{RequeueAfter: time.Hour}, nil
			case "failing":
				return true, reconcile.Result{}, errors.New("reconcile failed")
			case "endless":
				<-ctx.Done()
				ends <- context.Cause(ctx)
				return true, reconcile.Result{}, ctx.Err()
			}
			return false, reconcile.Result{}, nil
		})
		defer f.start(t)()
		synctest.Wait()
		before := goroutines()
		f.visits()

		east, west := newServer(t, "a", "later", "failing", "endless"), newServer(t, "a")
		cluster, err := f.Engage("east", hosted(east, "east"))
		must(t, err)
		_, err = f.Engage("west", hosted(west, "west"))
		must(t, err)
		time.Sleep(30 * time.Second)
		if got := f.visits(); !slices.Equal(got, []string{"east:a", "west:a"}) {
			t.Fatalf("got %q", got)
		}
		if s := f.controller.Queue().Stats(); s.Waiting != 2 || s.Running != 1 {
			t.Fatalf("%+v is in the queue", s)
		}
		if code, body := f.ready(t); code != 200 || !strings.Contains(body, "informers of east") {
			t.Fatalf("%d %s", code, body)
		}

		began := time.Now()
		must(t, f.Disengage("east"))
		assert.Equalf(t, time.Since(began), 0, "it took")
		assert.ErrorIsf(t, f.Disengage("east"), manager.ErrClusterNotFound, "the second time")
		_, err = f.Cluster("east")
		assert.ErrorIsf(t, err, manager.ErrClusterNotFound, "a disengaged cluster is found")
		if !errors.Is(context.Cause(cluster.Context()), manager.ErrDisengaged) {
			t.Errorf("its context has ended by %v", context.Cause(cluster.Context()))
		}
		if s := f.controller.Queue().Stats(); s.Waiting != 0 || s.Ready != 0 || s.Running != 1 {
			t.Errorf("%+v is in the queue", s)
		}
		if code, body := f.ready(t); code != 200 || strings.Contains(body, "east") ||
			!strings.Contains(body, "informers of west") {
			t.Errorf("%d %s", code, body)
		}
		// Running reconciles may continue for the grace period.
		if cause := <-ends; time.Since(began) != 10*time.Second || !errors.Is(cause, manager.ErrDisengaged) {
			t.Errorf("a reconcile was interrupted %v after that, by %v", time.Since(began), cause)
		}
		synctest.Wait()
		if s := f.controller.Queue().Stats(); s.Waiting+s.Ready+s.Running != 0 {
			t.Errorf("%+v is in the queue: interrupted reconciles must not be retried", s)
		}
		failing := reconcile.Request{Cluster: "east", NamespacedName: client.Key{Namespace: "default", Name: "failing"}}
		assert.Equalf(t, f.controller.Queue().NumRequeues(failing), 0, "failures are remembered")
		_, body := get(t, f.MetricsHandler(), "/metrics")
		for host, want := range map[string]bool{"east": false, "west": true, "own": true} {
			if strings.Contains(body, `host="`+host+`"`) != want {
				t.Errorf("metrics of %s: %v, want %v\n%s", host, !want, want, body)
			}
		}
		assert.Lenf(t, f.log.with("level=ERROR", "cluster=east", "disengaged"), 0, "unexpected log")

		// The other clusters continue.
		must(t, newClient(t, east).Create(t.Context(), configMap("unseen")))
		must(t, newClient(t, west).Create(t.Context(), configMap("seen")))
		time.Sleep(time.Second)
		assert.Slice(t, f.visits(), []string{"west:seen"})
		// Later requests for the cluster are dropped.
		f.controller.Queue().Add(reconcile.Request{Cluster: "east",
			NamespacedName: client.Key{Namespace: "default", Name: "a"}}, controller.Why("test"))
		time.Sleep(time.Second)
		assert.Len(t, f.visits(), 0)
		if got := f.log.with("cluster=east", "request dropped"); len(got) != 1 ||
			!strings.Contains(got[0], "level=DEBUG") {
			t.Errorf("it was logged as %q", got)
		}
		there := reconcile.WithCluster(t.Context(), "east")
		err = f.Client().Get(there, client.Key{Namespace: "default", Name: "a"},
			&corev1.ConfigMap{})
		assert.ErrorIsf(t, err, manager.ErrClusterNotFound, "a read there ends with")

		// Goroutines and memory are released.
		gone := weak.Make(cluster)
		cluster = nil
		must(t, f.Disengage("west"))
		synctest.Wait()
		// those of earlier tests may have ended
		if after := goroutines(); after > before {
			t.Errorf("%d goroutines, and %d before the clusters", after, before)
		}
		for range 5 {
			runtime.GC()
		}
		if gone.Value() != nil {
			t.Error("the cluster is kept in memory")
		}
	})
}

func newClient(t *testing.T, s *apitest.Server) client.Client {
	t.Helper()
	c, err := client.New(client.Config{REST: s.REST()})
	must(t, err)
	return c
}

// A name can be engaged again immediately, for another server. Reconciles of the former cluster
// stay there, and no object is processed by two workers.
func TestEngageAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *fleet
		var slow []string
		f = newFleet(t, manager.Config{}, func(ctx context.Context, req reconcile.Request) (bool, reconcile.Result,
			error) {
			if req.Name != "slow" {
				return false, reconcile.Result{}, nil
			}
			time.Sleep(5 * time.Second)
			cm, err := client.Get[corev1.ConfigMap](ctx, f.Client(), req.NamespacedName)
			if err != nil {
				return true, reconcile.Result{}, err
			}
			if cm.Data["seen"] == "yes" {
				return true, reconcile.Result{RequeueAfter: time.Hour}, nil
			}
			slow = append(slow, cm.Data["server"])
			cm.Data["seen"] = "yes"
			return true, reconcile.Result{RequeueAfter: time.Hour}, f.Client().Update(ctx, cm)
		})
		defer f.start(t)()
		var servers []*apitest.Server
		for n := range 2 {
			s := newServer(t, "a")
			cm := configMap("slow")
			cm.Data = map[string]string{"server": fmt.Sprint(n)}
			must(t, newClient(t, s).Create(t.Context(), cm))
			servers = append(servers, s)
		}
		_, err := f.Engage("east", hosted(servers[0], "one"))
		must(t, err)
		if _, err := f.Engage("east", hosted(servers[1], "two")); err == nil {
			t.Error("two clusters with the same name")
		}
		time.Sleep(time.Second)
		must(t, f.Disengage("east"))
		_, err = f.Engage("east", hosted(servers[1], "two"))
		must(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Slice(t, f.visits(), []string{"east:a", "east:a"})
		assert.Slicef(t, slow, []string{"0", "1"}, "running reconciles read from")
		for n, s := range servers {
			if got := s.Requests(); !slices.Equal(got[2:], []string{"PUT /api/v1/namespaces/default/configmaps/slow"}) {
				t.Errorf("server %d got the requests %q", n, got)
			}
		}
		s := f.controller.Queue().Stats()
		assert.Equalf(t, s.Waiting, 1, "%+v is in the queue, want the requests of the second cluster", s)
		assert.Len(t, f.log.with("level=ERROR"), 0)
	})
}

// away is a server that never responds.
type away struct{}

func (away) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A cluster whose server does not respond does not delay other clusters or its own end.
func TestDisengageUnresponsiveCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, manager.Config{}, nil)
		must(t, f.LiveClient().Create(t.Context(), configMap("a")))
		_, err := f.Engage("early", hosted(away{}, "early"))
		must(t, err)
		defer f.start(t)()
		time.Sleep(time.Second)
		if got := f.visits(); !slices.Equal(got, []string{":a"}) {
			t.Errorf("got %q: a cluster that is away holds up the others", got)
		}
		_, err = f.Engage("late", hosted(away{}, "late"))
		must(t, err)
		f.controller.Queue().Add(reconcile.Request{Cluster: "late",
			NamespacedName: client.Key{Namespace: "default", Name: "a"}}, controller.Why("test"))
		time.Sleep(5 * time.Minute) // longer than any timeout for caches
		if code, body := f.ready(t); code != 500 || !strings.Contains(body, "informers of early") ||
			!strings.Contains(body, "informers of late") {
			t.Errorf("%d %s", code, body)
		}
		cluster, err := f.Cluster("late")
		must(t, err)
		cluster.Recorder("test").Event(configMap("a"), "Normal", "Test", "not to be written")
		began := time.Now()
		must(t, f.Disengage("early"))
		must(t, f.Disengage("late"))
		assert.Equalf(t, time.Since(began), 0, "it took")
		code, body := f.ready(t)
		assert.Equalf(t, code, 200, "%s", body)
		// The waiting read ends with the grace period, and the event is dropped.
		time.Sleep(16 * time.Second)
		s := f.controller.Queue().Stats()
		assert.Equalf(t, s.Ready+s.Waiting+s.Running, 0, "%+v is in the queue", s)
	})
}

// Engage before the manager runs, and with errors.
func TestEngageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, manager.Config{}, nil)
		early := newServer(t, "a")
		_, err := f.Engage("early", hosted(early, "early"))
		must(t, err)
		must(t, f.Disengage("early"))
		refused := errors.New("not here")
		must(t, f.OnCluster(func(c *manager.Cluster) error {
			if c.Name() == "refused" {
				return refused
			}
			return nil
		}))
		defer f.start(t)()
		time.Sleep(time.Second)
		_, err = f.Engage("refused", hosted(early, "early"))
		assert.ErrorIs(t, err, refused)
		synctest.Wait()
		f.visits() // the first request of OnCluster was not refused
		must(t, newClient(t, early).Create(t.Context(), configMap("b")))
		time.Sleep(time.Second)
		assert.Len(t, f.visits(), 0)
		if code, body := f.ready(t); code != 200 || strings.Contains(body, "refused") {
			t.Errorf("%d %s", code, body)
		}
		for name, cfg := range map[string]*rest.Config{"": hosted(early, "early"), "no-config": nil,
			"no-url": {Host: "http://a b"}} {
			if _, err := f.Engage(name, cfg); err == nil {
				t.Errorf("%q was engaged", name)
			}
		}
		for _, name := range []string{"", "refused", "never"} {
			assert.ErrorIsf(t, f.Disengage(name), manager.ErrClusterNotFound, "disengage %q", name)
		}
	})
}

// Clusters are engaged and disengaged concurrently while the manager starts, works and stops.
func TestConcurrentEngagements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(10) {
			f := newFleet(t, manager.Config{}, func(ctx context.Context, req reconcile.Request) (bool, reconcile.Result,
				error) {
				return req.Name == "later", reconcile.Result{RequeueAfter: time.Hour}, nil
			})
			var hands sync.WaitGroup
			for hand := range uint64(4) {
				random := rand.New(rand.NewPCG(seed, hand))
				hands.Go(func() {
					for range 50 {
						name := fmt.Sprint("cluster", random.IntN(3))
						if random.IntN(2) == 0 {
							_, _ = f.Engage(name, hosted(newServer(t, "a", "later"), name))
						} else if err := f.Disengage(name); err != nil && !errors.Is(err, manager.ErrClusterNotFound) {
							t.Error(err)
						}
						if random.IntN(4) == 0 {
							time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
						}
					}
				})
			}
			stop := f.start(t)
			time.Sleep(time.Duration(seed) * time.Millisecond)
			if seed%2 == 1 {
				hands.Wait()
				for n := range 3 {
					_ = f.Disengage(fmt.Sprint("cluster", n))
				}
				time.Sleep(time.Minute)
				s := f.controller.Queue().Stats()
				assert.Equalf(t, s.Ready+s.Waiting+s.Running, 0, "seed %d: %+v is in the queue", seed, s)
				f.visits()
				_, err := f.Engage("cluster0", hosted(newServer(t, "a", "later"), "cluster0"))
				must(t, err)
				time.Sleep(time.Second)
				assert.Slicef(t, f.visits(), []string{"cluster0:a"}, "seed %d", seed)
			}
			stop()
			hands.Wait()
		}
	})
}

// A replica that does not lead also engages clusters and disengages them.
func TestDisengageWithoutLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election := &leader.Config{Lease: client.Key{Namespace: "system", Name: "test"}, Identity: "second"}
		server := apitest.New()
		election.Client = newClient(t, server)
		first := startReplica(t, server, "first", nil)
		<-first.Elected()
		f := newFleet(t, manager.Config{Election: election}, nil)
		stop := f.start(t)
		_, err := f.Engage("east", hosted(newServer(t, "a", "b"), "east"))
		must(t, err)
		time.Sleep(time.Second)
		if n := f.controller.Queue().Len(); n != 2 || len(f.visits()) != 0 {
			t.Errorf("%d requests wait, want 2", n)
		}
		must(t, f.Disengage("east"))
		assert.Equalf(t, f.controller.Queue().Len(), 0, "requests wait")
		_, err = f.Engage("east", hosted(newServer(t, "c"), "east"))
		must(t, err)
		time.Sleep(time.Second)
		first.stop()
		must(t, <-first.err)
		<-f.Elected()
		time.Sleep(time.Second)
		assert.Slice(t, f.visits(), []string{"east:c"})
		stop()
	})
}
