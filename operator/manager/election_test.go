package manager_test

import (
	"context"
	"fmt"
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

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// replica is one of several managers on one server.
type replica struct {
	*manager.Manager
	stop func()
	err  chan error

	mu         sync.Mutex
	reconciled []string
}

func (r *replica) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.reconciled...)
}

func startReplica(t *testing.T, s *apitest.Server, name string,
	change func(*manager.Config, *controller.Config)) *replica {
	t.Helper()
	cfg := manager.Config{REST: s.REST(), Name: "test",
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)).With("replica", name),
		Election: &leader.Config{Lease: client.Key{Namespace: "system", Name: "test"}, Identity: name}}
	r := &replica{err: make(chan error, 1)}
	cc := controller.Config{Name: "test", Reconciler: reconcile.Func(func(_ context.Context,
		req reconcile.Request) (reconcile.Result, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reconciled = append(r.reconciled, req.Name)
		return reconcile.Result{}, nil
	})}
	if change != nil {
		change(&cfg, &cc)
	}
	m, err := manager.New(cfg)
	must(t, err)
	r.Manager = m
	cc.Sources = append(cc.Sources, &controller.Kind{Informers: m.Informers(), Object: &corev1.ConfigMap{}})
	must(t, m.AddController(cc))
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.err <- m.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// The leader works; the other replica is ready, and takes over as soon as the Lease is released.
func TestOneReplicaLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		a := startReplica(t, s, "a", nil)
		must(t, a.LiveClient().Create(t.Context(), configMap("one")))
		time.Sleep(time.Second)
		b := startReplica(t, s, "b", nil)
		time.Sleep(time.Minute)
		assert.Equal(t, fmt.Sprint(a.seen(), b.seen()), "[one] []")
		_, body := get(t, b.HealthHandler(), "/readyz")
		assert.Equalf(t, body, "ok", "the waiting replica is not ready")
		for m, want := range map[*replica]string{a: "1", b: "0"} {
			_, body := get(t, m.MetricsHandler(), "/metrics")
			assert.Containsf(t, body, `leader_election_master_status{name="test"} `+want, "want %s", want)
		}
		a.stop()
		must(t, <-a.err)
		synctest.Wait() // no time passes
		assert.Equalf(t, fmt.Sprint(b.seen()), "[one]", "after the hand-over")
		b.stop()
		must(t, <-b.err)
	})
}

// A replica that has lost the election stops without a grace period, and reports why.
func TestLostElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		var begun, ended time.Time
		a := startReplica(t, s, "a", func(_ *manager.Config, c *controller.Config) {
			c.Reconciler = reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				begun = time.Now()
				<-ctx.Done()
				ended = time.Now()
				return reconcile.Result{}, ctx.Err()
			})
		})
		must(t, a.LiveClient().Create(t.Context(), configMap("one")))
		time.Sleep(time.Minute)
		must(t, a.LiveClient().Delete(t.Context(), leaseObject()))
		lost := time.Now()
		assert.ErrorIs(t, <-a.err, leader.ErrLost)
		if begun.IsZero() || ended.Sub(lost) > 2*time.Second {
			t.Errorf("a reconcile continued for %v", ended.Sub(lost))
		}
	})
}

func leaseObject() client.Object {
	lease := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "test"}}
	lease.APIVersion, lease.Kind = "coordination.k8s.io/v1", "Lease"
	return lease
}

// Two replicas share the objects of one controller.
func TestShardedController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		shared := func(m *manager.Config, c *controller.Config) {
			m.Election = nil
			live, err := client.New(client.Config{REST: m.REST})
			must(t, err)
			shards, err := leader.NewShards(leader.ShardsConfig{Client: live,
				Group: client.Key{Namespace: "system", Name: "test"}, Log: m.Log})
			must(t, err)
			c.Gate, c.EveryReplica = shards, true
		}
		start := func(name string) *replica {
			var gate *leader.Shards
			r := startReplica(t, s, name, func(m *manager.Config, c *controller.Config) {
				shared(m, c)
				gate = c.Gate.(*leader.Shards)
			})
			r.AddShards(gate)
			return r
		}
		a, b := start("a"), start("b")
		time.Sleep(time.Minute)
		for i := range 40 {
			must(t, a.LiveClient().Create(t.Context(), configMap(fmt.Sprint("cm", i))))
		}
		time.Sleep(time.Minute)
		na, nb := len(a.seen()), len(b.seen())
		if na+nb != 40 || na < 10 || nb < 10 {
			t.Errorf("they reconciled %d and %d of 40", na, nb)
		}
		a.stop()
		must(t, <-a.err)
		time.Sleep(time.Second)
		all := map[string]bool{}
		for _, name := range b.seen() {
			all[name] = true
		}
		if len(all) != 40 {
			t.Errorf("the remaining replica has %d of 40", len(all))
		}
		b.stop()
		must(t, <-b.err)
	})
}

// A missing permission is reported immediately.
func TestMissingPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		s.SetFaults(apitest.Faults{Fail: func(verb, path string) (int, metav1.StatusReason) {
			if strings.HasSuffix(path, "/configmaps") {
				return http.StatusForbidden, metav1.StatusReasonForbidden
			}
			return 0, ""
		}})
		var log strings.Builder
		r := startReplica(t, s, "a", func(m *manager.Config, c *controller.Config) {
			m.Election = nil
			m.Log = slog.New(slog.NewTextHandler(&log, nil))
			c.SyncTimeout = time.Minute
		})
		synctest.Wait()
		_, body := get(t, r.HealthHandler(), "/readyz")
		for what, text := range map[string]string{"/readyz": body, "log": log.String()} {
			if !strings.Contains(text, "configmaps") ||
				!strings.Contains(text, "is missing (grant list and watch by a ClusterRoleBinding)") {
				t.Errorf("%s does not name the missing permission: %s", what, text)
			}
		}
		assert.ErrorContainsf(t, <-r.err, "configmaps is missing", "it ended")
	})
}

// Reads and writes go to the cluster of the request.
func TestClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, east := apitest.New(), apitest.New()
		var records []trace.Record
		m, err := manager.New(manager.Config{REST: own.REST(), Name: "test",
			Log:   slog.New(slog.NewTextHandler(t.Output(), nil)),
			Trace: trace.Func(func(r trace.Record) { records = append(records, r) })})
		must(t, err)
		c, err := m.NewController(controller.Config{Name: "copy", Kind: "ConfigMap", Reconciler: reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				if strings.HasPrefix(req.Name, "copy") {
					return reconcile.Result{}, nil
				}
				cm, err := client.Get[corev1.ConfigMap](ctx, m.Client(), req.NamespacedName)
				if err != nil {
					return reconcile.Result{}, err
				}
				return reconcile.Result{}, m.Client().Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "copy-of-" + cm.Name},
					Data:       map[string]string{"cluster": req.Cluster},
				})
			})})
		must(t, err)
		must(t, m.OnCluster(func(cluster *manager.Cluster) error {
			_, err := c.Watch(&controller.Kind{Informers: cluster.Informers(), Cluster: cluster.Name(),
				Object: &corev1.ConfigMap{}})
			return err
		}))
		stop := require.Running(t, m.Run)
		must(t, m.LiveClient().Create(t.Context(), configMap("a")))
		time.Sleep(time.Second)
		added, err := m.Engage("east", east.REST()) // while it runs
		must(t, err)
		must(t, added.LiveClient().Create(t.Context(), configMap("b")))
		time.Sleep(time.Second)
		for server, want := range map[*apitest.Server]string{own: "a copy-of-a:", east: "b copy-of-b:east"} {
			var got []string
			for _, o := range server.Objects("configmaps") {
				name := o["metadata"].(map[string]any)["name"].(string)
				if data, ok := o["data"].(map[string]any); ok {
					cluster, _ := data["cluster"].(string)
					name += ":" + cluster
				}
				got = append(got, name)
			}
			assert.Equalf(t, strings.Join(got, " "), want, "got %q", got)
		}
		if _, err := m.Engage("east", east.REST()); err == nil {
			t.Error("two clusters have the same name")
		}
		stop()
		chained := false
		for _, r := range records {
			for _, cause := range r.Causes.All() {
				chained = chained || r.Request.String() == "east:default/copy-of-b" && cause.Cluster == "east" &&
					cause.By != 0
			}
		}
		if !chained {
			t.Errorf("no cause names the reconcile that wrote it: %+v", records)
		}
	})
}

// Two controllers that fight over a field are a loop; a controller with much work is not.
func TestHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		var log strings.Builder
		var loops []*trace.Loop
		m, err := manager.New(manager.Config{REST: s.REST(), Name: "test",
			Log: slog.New(slog.NewTextHandler(&log, nil)),
			Trace: trace.Func(func(r trace.Record) {
				if r.Loop != nil {
					loops = append(loops, r.Loop)
				}
			})})
		must(t, err)
		var fight atomic.Bool
		for _, side := range []string{"left", "right"} {
			must(t, m.AddController(controller.Config{Name: side, Kind: "ConfigMap",
				Sources: []controller.Source{&controller.Kind{Informers: m.Informers(), Object: &corev1.ConfigMap{}}},
				Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					cm, err := client.Get[corev1.ConfigMap](ctx, m.Client(), req.NamespacedName)
					if err != nil || !fight.Load() {
						return reconcile.Result{}, err
					}
					time.Sleep(100 * time.Millisecond)
					cm.Data = map[string]string{"side": side}
					return reconcile.Result{}, m.Client().Update(ctx, cm)
				})}))
		}
		stop := require.Running(t, m.Run)
		must(t, m.LiveClient().Create(t.Context(), configMap("busy")))
		for i := range 100 { // another writer's work is not a loop
			cm := configMap("busy")
			cm.Data = map[string]string{"n": fmt.Sprint(i)}
			must(t, m.LiveClient().Update(t.Context(), cm))
			time.Sleep(50 * time.Millisecond)
		}
		if len(loops) > 0 {
			t.Fatalf("a false loop: %v", loops)
		}
		fight.Store(true)
		must(t, m.LiveClient().Create(t.Context(), configMap("torn")))
		time.Sleep(30 * time.Second)
		stop()
		if len(loops) == 0 {
			t.Fatal("the loop was not found")
		}
		text := loops[len(loops)-1].String()
		for _, want := range []string{"left", "right", "ConfigMap default/torn", "data.side", "→"} {
			if !strings.Contains(text, want) || !strings.Contains(log.String(), "hot loop: ") {
				t.Errorf("%q is not in %s", want, text)
			}
		}
		if _, body := get(t, m.MetricsHandler(), "/metrics"); !strings.Contains(body,
			`kelson_hot_loops_total{controller="left"}`) {
			t.Error("the loop is not in the metrics")
		}
		if len(loops) > 4 {
			t.Errorf("reported %d times in half a minute", len(loops))
		}
	})
}

// A controller that does not stop in time keeps the Lease: no other replica leads before it
// expires.
func TestLeaseIsKeptWhileControllersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		var ended atomic.Bool
		a := startReplica(t, s, "a", func(m *manager.Config, c *controller.Config) {
			m.GracePeriod = time.Second
			c.Reconciler = reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				time.Sleep(15 * time.Second) // it ignores its context
				ended.Store(true)
				return reconcile.Result{}, nil
			})
		})
		must(t, a.LiveClient().Create(t.Context(), configMap("one")))
		time.Sleep(time.Second)
		b := startReplica(t, s, "b", nil)
		time.Sleep(time.Second)
		a.stop()
		assert.ErrorIs(t, <-a.err, leader.ErrStillWorking)
		<-b.Elected()
		if !ended.Load() {
			t.Error("another replica leads while a reconcile runs")
		}
		b.stop()
		must(t, <-b.err)
	})
}

// A reconcile that is canceled at the end of the grace period may have a request in flight. The
// Lease is kept, so that no other replica leads before it expires.
func TestLeaseIsKeptAfterACanceledReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		a := startReplica(t, s, "a", func(m *manager.Config, c *controller.Config) {
			m.GracePeriod = time.Second
			c.GracePeriod = time.Second
			c.Reconciler = reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				<-ctx.Done()
				return reconcile.Result{}, ctx.Err()
			})
		})
		must(t, a.LiveClient().Create(t.Context(), configMap("one")))
		time.Sleep(time.Second)
		b := startReplica(t, s, "b", nil)
		time.Sleep(time.Second)
		a.stop()
		assert.ErrorIs(t, <-a.err, leader.ErrStillWorking)
		stopped := time.Now()
		<-b.Elected()
		if took := time.Since(stopped); took < 5*time.Second {
			t.Errorf("another replica leads %s after the reconcile was canceled", took)
		}
		b.stop()
		must(t, <-b.err)
	})
}
