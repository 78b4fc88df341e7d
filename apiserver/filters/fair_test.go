package filters_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"

	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// tenants returns a chain whose requests take 10 ms of virtual time.
func tenants(t *testing.T, cfg filters.Config,
	seats int) (c *filters.Chain, serve func(name, method, path string) *httptest.ResponseRecorder) {
	st := storetest.New(t, store.Config{})
	for key, obj := range map[store.Key]any{
		{Resource: "flowschemas.flowcontrol.apiserver.k8s.io",
			Name: "global-default"}: bootstrap.SuggestedFlowSchemaGlobalDefault,
		{Resource: "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
			Name: "global-default"}: bootstrap.SuggestedPriorityLevelConfigurationGlobalDefault,
	} {
		data, err := json.Marshal(obj)
		require.NoError(t, err)
		if seats == 1 {
			continue // all users share the level catch-all, which has no queues
		}
		_, err = st.Commit(t.Context(), store.Op{Key: key, Data: data})
		require.NoError(t, err)
	}
	if seats > 0 {
		cfg.FlowControl = flowcontrol.New(flowcontrol.Config{Store: st, Seats: seats})
	}
	if cfg.Resources == nil {
		cfg.Resources = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Millisecond) })
	}
	c = filters.New(cfg)
	return c, func(name, method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(method, path, nil)
		c.ServeHTTP(w, req.WithContext(filters.WithUser(req.Context(),
			&user.DefaultInfo{Name: name, Groups: strings.Split(name, "+")[1:]})))
		return w
	}
}

// While one tenant sends as many requests at a time as it can, the 99th percentile of another
// tenant's requests stays within three times its usual value, and none of them fails. The second
// run shows that flow control is the reason.
func TestFloodOfOneTenant(t *testing.T) {
	for _, test := range []struct {
		name string
		fair bool
	}{{"fair", true}, {"unfair", false}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seats := 0
				if test.fair {
					seats = 600
				}
				_, serve := tenants(t, filters.Config{MaxInFlight: 400, MaxMutatingInFlight: 200}, seats)
				const path = "/api/v1/namespaces/x/configmaps/c"
				p99 := func() (d time.Duration, failed int) {
					var took []time.Duration
					for range 100 {
						start := time.Now()
						if w := serve("ann", "GET", path); w.Code != http.StatusOK {
							failed++
						}
						took = append(took, time.Since(start))
						time.Sleep(time.Millisecond)
					}
					slices.Sort(took)
					return took[len(took)*99/100], failed
				}
				alone, _ := p99()
				flood, end := context.WithCancel(t.Context())
				var clients sync.WaitGroup
				for range 500 {
					clients.Go(func() {
						for flood.Err() == nil {
							if w := serve("mallory", "GET", path); w.Code == http.StatusTooManyRequests {
								time.Sleep(100 * time.Millisecond)
							}
						}
					})
				}
				time.Sleep(time.Second)
				with, failed := p99()
				end()
				clients.Wait()
				t.Logf("alone %s, in the flood %s, %d of 100 failed", alone, with, failed)
				if harmed := failed > 0 || with > 3*alone; harmed == test.fair {
					t.Errorf("p99 alone %s, in the flood %s, %d of 100 failed", alone, with, failed)
				}
			})
		})
	}
}

// A watch holds its seats until it has sent its initial events. Administrators and probes need
// none. Every response names its FlowSchema and level.
func TestSeatsOfWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		initialized, end := make(chan struct{}), make(chan struct{})
		registry := prometheus.NewRegistry()
		_, serve := tenants(t, filters.Config{
			Metrics: registry,
			Resources: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				if req.URL.Query().Get("watch") == "" {
					return
				}
				<-initialized
				upstream.WatchInitialized(req.Context())
				<-end
			}),
		}, 1)
		const path = "/api/v1/namespaces/x/configmaps"
		var watches sync.WaitGroup
		watches.Go(func() { serve("ann", "GET", path+"?watch=1") })
		synctest.Wait()
		w := serve("ann", "GET", path)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" ||
			!strings.Contains(w.Body.String(), "Too many requests, please try again later.") {
			t.Errorf("request while the only seat is taken: %d %v %s", w.Code, w.Header(), w.Body)
		}
		for _, name := range []string{"X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID"} {
			assert.Equalf(t, len(w.Result().Header.Values(name)), 1, "no %s", name)
		}
		if w := serve("root+"+user.SystemPrivilegedGroup, "GET", path); w.Code != http.StatusOK {
			t.Errorf("request of an administrator: %d", w.Code)
		}
		if w := serve("ann", "GET", "/readyz"); w.Code != http.StatusOK {
			t.Errorf("a probe: %d", w.Code)
		}
		close(initialized)
		synctest.Wait()
		if w := serve("ann", "GET", path); w.Code != http.StatusOK {
			t.Errorf("request during a watch that has sent its initial events: %d", w.Code)
		}
		close(end)
		watches.Wait()
	})
}

// Service accounts of a namespace share the seats of long-running requests: a user who may create
// service accounts could otherwise have any number of seats.
func TestLongRunningRequestsOfServiceAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		_, serve := tenants(t, filters.Config{
			MaxLongRunningPerUser: 3, Resources: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }),
		}, 600)
		account := func(namespace string, i int) string {
			return fmt.Sprintf("system:serviceaccount:%s:a%d", namespace, i)
		}
		var watches sync.WaitGroup
		for i := range 3 {
			watches.Go(func() { serve(account("x", i), "GET", "/api/v1/pods?watch=1&resourceVersion=1") })
		}
		synctest.Wait()
		w := serve(account("x", 3), "GET", "/api/v1/pods?watch=1")
		assert.Equalf(t, w.Code, http.StatusTooManyRequests, "a fourth watch of a namespace")
		watches.Go(func() {
			w := serve(account("y", 0), "GET", "/api/v1/pods?watch=1&resourceVersion=1")
			assert.Equalf(t, w.Code, http.StatusOK, "watch of another namespace")
		})
		synctest.Wait()
		close(end)
		watches.Wait()
	})
}

// A long-running request with a large head takes several seats, because the head stays in memory.
func TestLongRunningRequestsWithLargeHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := filters.New(filters.Config{MaxLongRunningPerUser: 3,
			Resources: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end })})
		watch := func(head int) int {
			code, _ := send(t.Context(), c, "GET", configMaps+"?watch=1", nil, "X-Large: "+strings.Repeat("x", head))
			return code
		}
		var watches sync.WaitGroup
		watches.Go(func() {
			assert.Equalf(t, watch(40<<10), http.StatusOK, "the first watch")
		})
		synctest.Wait()
		assert.Equalf(t, watch(0), http.StatusTooManyRequests, "a second watch")
		close(end)
		watches.Wait()
		assert.Equalf(t, watch(0), http.StatusOK, "a watch after the first")
	})
}

// A watch whose initial events wait for another server, such as a conversion webhook, does not hold
// the seats of other requests.
func TestWatchesThatWaitHoldNoSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		_, serve := tenants(t, filters.Config{
			Resources: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				if req.URL.Query().Get("watch") != "" {
					defer flowcontrol.Wait(req.Context())()
					<-end
				}
			}),
		}, 1)
		const path = "/api/v1/namespaces/x/configmaps"
		var watches sync.WaitGroup
		watches.Go(func() { serve("ann", "GET", path+"?watch=1") })
		synctest.Wait()
		w := serve("ann", "GET", path)
		assert.Equalf(t, w.Code, http.StatusTooManyRequests, "request during a watch that has just begun")
		time.Sleep(10 * time.Millisecond)
		w = serve("ann", "GET", path)
		assert.Equalf(t, w.Code, http.StatusOK, "request during a watch that waits for another server")
		close(end)
		watches.Wait()
	})
}

// A watch releases its seats only after it has got them: an authorizer may wait for another server
// already during impersonation.
func TestWaitBeforeSeats(t *testing.T) {
	var before, after any
	c, _ := tenants(t, filters.Config{Authorizer: authorizer.AuthorizerFunc(func(ctx context.Context,
		a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetVerb() == "watch" {
			after = ctx.Value(flowcontrol.WaiterKey)
		} else if w := ctx.Value(flowcontrol.WaiterKey); w != nil {
			before = w
		}
		return authorizer.DecisionAllow, "", nil
	})}, 20)
	req := httptest.NewRequest("GET", "/api/v1/namespaces/x/configmaps?watch=1", nil)
	req.Header.Set("Impersonate-User", "bob")
	c.ServeHTTP(httptest.NewRecorder(), req.WithContext(filters.WithUser(req.Context(),
		&user.DefaultInfo{Name: "ann"})))
	if before != nil || after == nil {
		t.Errorf("before the watch has seats: %v, then: %v", before, after)
	}
}
