package manager_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
)

// watched records when watches begin and end, and writes.
type watched struct {
	next http.RoundTripper
	note func(string)
}

func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	plural := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.URL.Query().Get("watch") == "true":
		w.note("watch " + plural)
		context.AfterFunc(r.Context(), func() { w.note("end of watch " + plural) })
	case r.Method == http.MethodPost:
		// In the bubble, time passes only when all other goroutines wait: what the manager has
		// started by now has noted its start before the write of the Lease lets this replica lead.
		time.Sleep(time.Millisecond)
		w.note("create one of " + plural)
	case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/leases/"):
		w.note("write the Lease")
	}
	return w.next.RoundTrip(r)
}

// Caches start first, then the parts that run in every replica, and then, when this replica leads,
// controllers and other parts. They stop in the opposite order, so that each part outlives those
// that need it.
func TestStartAndStopOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(order, what) || strings.HasPrefix(what, "write") {
				order = append(order, what)
			}
		}
		at := func(what string) int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Index(order, what)
		}
		s := apitest.New()
		must(t, newClient(t, s).Create(t.Context(), configMap("a")))
		cfg := s.REST()
		cfg.Transport = watched{s, note}
		m, err := manager.New(manager.Config{
			REST: cfg, Name: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)), GracePeriod: time.Minute,
			Election: &leader.Config{Lease: client.Key{Namespace: "system", Name: "test"}, Identity: "only"},
		})
		must(t, err)
		run := func(name string) manager.Runnable {
			return manager.Func(func(ctx context.Context) error {
				note(name)
				<-ctx.Done()
				time.Sleep(time.Second)
				note("end of " + name)
				return nil
			})
		}
		m.Add(run("leader"))
		m.Add(manager.OnEveryReplica(run("other")))
		must(t, m.AddController(controller.Config{
			Name: "test", Sources: []controller.Source{&controller.Kind{Informers: m.Informers(),
				Object: &corev1.ConfigMap{}}},
			Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				note("reconcile")
				for range 2 { // at the start, and after the operator's context has ended
					_, err := client.Get[corev1.ConfigMap](ctx, m.Client(), req.NamespacedName)
					assert.NoErrorf(t, err, "the last reconcile reads")
					time.Sleep(5*time.Second + time.Millisecond)
				}
				m.Recorder("test").Event(configMap("a"), "Normal", "Last", "at the end")
				note("end of reconcile")
				return reconcile.Result{}, nil
			}),
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		<-m.Elected()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		mu.Lock()
		begun := len(order)
		mu.Unlock()
		cancel()
		must(t, <-ended)
		synctest.Wait()

		for _, pair := range [][2]string{
			{"watch configmaps", "reconcile"}, {"other", "reconcile"}, {"create one of leases", "leader"},
			{"create one of leases", "reconcile"},
			{"end of reconcile", "end of other"}, {"end of leader", "end of other"},
			{"end of reconcile", "end of watch configmaps"},
			{"end of other", "end of watch configmaps"},
		} {
			if first, second := at(pair[0]), at(pair[1]); first < 0 || second < 0 || first >= second {
				t.Errorf("%q is not before %q", pair[0], pair[1])
			}
		}
		// The Lease is released after the work has ended, and before the caches stop.
		released := len(order) - 1
		for ; released >= begun && order[released] != "write the Lease"; released-- {
		}
		if released < at("end of reconcile") || released > at("end of watch configmaps") {
			t.Errorf("the Lease is released at %d", released)
		}
		if events := s.Objects("events"); len(events) != 2 ||
			events[0]["reason"] != "Last" && events[1]["reason"] != "Last" {
			t.Errorf("the last event is not among %v", events)
		}
		if t.Failed() {
			t.Logf("%q", order)
		}
	})
}
