package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/aggregator"
	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
)

// statuses stands for the API: it applies the patches of statuses to the store.
type statuses struct{ *store.Store }

func (s statuses) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	name := strings.TrimSuffix(strings.TrimPrefix(req.URL.Path, "/apis/apiregistration.k8s.io/v1/apiservices/"),
		"/status")
	key := store.Key{Resource: aggregator.Resource, Name: name}
	obj := s.Snapshot().Get(key)
	var patch, tree map[string]any
	if err := json.NewDecoder(req.Body).Decode(&patch); err != nil || obj == nil ||
		json.Unmarshal(obj.Data, &tree) != nil {
		w.WriteHeader(http.StatusNotFound)
		return w.Result(), nil
	}
	tree["status"] = patch["status"]
	data, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	if _, err := s.Commit(req.Context(), store.Op{Key: key, Data: data, Expect: obj.Revision}); err != nil {
		w.WriteHeader(http.StatusConflict)
	}
	return w.Result(), nil
}

func put(t *testing.T, st *store.Store, key store.Key, data string) {
	t.Helper()
	_, err := st.Commit(t.Context(), store.Op{Key: key, Data: []byte(data), Expect: store.AnyRevision})
	assert.NoError(t, err)
}

// newStore returns a store with the Service s of the backends, at a URL.
func newStore(t *testing.T, url string) *store.Store {
	t.Helper()
	st := storetest.New(t, store.Config{})
	putService(t, st, url)
	return st
}

func putService(t *testing.T, st *store.Store, url string) {
	t.Helper()
	put(t, st, store.Key{Resource: services.Services, Namespace: "n", Name: "s"},
		fmt.Sprintf(`{"metadata":{"name":"s","namespace":"n","annotations":{"kelson.dev/url":%q}},"spec":{"ports":[{"port":443}]}}`, url))
}

func apiServiceOf(group string) (store.Key, string) {
	return store.Key{Resource: aggregator.Resource, Name: "v1." + group}, fmt.Sprintf(`{"metadata":{"name":"v1.%s","uid":%[1]q},
		"spec":{"group":%[1]q,"version":"v1","insecureSkipTLSVerify":true,"groupPriorityMinimum":10,"versionPriority":10,
		"service":{"namespace":"n","name":"s","port":443}}}`, group)
}

// Backends are added, removed and fail while requests and documents are served. Run it with
// -race.
func TestConcurrentChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t, "https://backend.example")
		registry := prometheus.NewRegistry()
		a := aggregator.New(aggregator.Config{
			Store: st, Services: services.New(services.Config{Store: st}), Client: statuses{st}, Metrics: registry,
			Dial: func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrUnexpectedEOF },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()

		handler := a.Handler(http.NotFoundHandler())
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				group := fmt.Sprintf("g%d.example.com", i)
				key, object := apiServiceOf(group)
				for range 10 {
					put(t, st, key, object)
					time.Sleep(time.Second)
					req := httptest.NewRequest(http.MethodGet, "/apis/"+group+"/v1", nil)
					req = req.WithContext(apirequest.WithUser(req.Context(), &user.DefaultInfo{Name: "u"}))
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, req)
					if w.Code != http.StatusServiceUnavailable ||
						!a.Serves(schema.GroupVersion{Group: group, Version: "v1"}) {
						t.Errorf("%d %s", w.Code, w.Body)
					}
					if listed := a.Discovery(); listed == nil ||
						!(*listed)[schema.GroupVersion{Group: group, Version: "v1"}].Stale {
						t.Errorf("discovery: %v", listed)
					}
					_, err := registry.Gather()
					assert.NoError(t, err)
					putService(t, st, fmt.Sprintf("https://b%d.example", i))
					_, err = st.Commit(t.Context(), store.Op{Key: key, Expect: store.AnyRevision})
					assert.NoError(t, err)
					time.Sleep(time.Second)
				}
			})
		}
		clients.Wait()
		synctest.Wait()
		if a.Discovery() != nil || a.OpenAPI() != nil {
			t.Error("the documents of removed backends are still served")
		}
		cancel()
		assert.NoError(t, <-ended)
	})
}

// A backend whose first answers about OpenAPI are errors is described soon after.
func TestDescribedAfterErrors(t *testing.T) {
	const index = `{"paths":{"apis/a.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/a.example.com/v1?hash=1"}}}`
	var refused atomic.Int64
	backend := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/apis/a.example.com/v1":
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"a.example.com/v1","resources":[]}`)
		case strings.HasPrefix(r.URL.Path, "/openapi/") && refused.Add(1) <= 4:
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/openapi/v3":
			_, _ = io.WriteString(w, index)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer backend.Close()
	st := newStore(t, backend.URL)
	key, object := apiServiceOf("a.example.com")
	put(t, st, key, object)
	a := aggregator.New(aggregator.Config{Store: st, Services: services.New(services.Config{Store: st}),
		Client: statuses{st}, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	hash := func() string {
		if all := a.OpenAPI(); all != nil {
			return (*all)[schema.GroupVersion{Group: "a.example.com", Version: "v1"}].V3Hash
		}
		return ""
	}
	for deadline := time.Now().Add(time.Minute); hash() == ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no OpenAPI document after 20 seconds")
		}
	}
	if hash() != "1" || refused.Load() < 4 {
		t.Errorf("hash %q after %d requests", hash(), refused.Load())
	}
	cancel()
	assert.NoError(t, <-ended)
}

// APIServices with unusable certificates are unavailable, with client-go's error.
func TestBrokenBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t, "https://backend.example")
		key, object := apiServiceOf("a.example.com")
		put(t, st, key, strings.Replace(object, `"insecureSkipTLSVerify":true`, `"caBundle":"bm9uZQ=="`, 1))
		registry := prometheus.NewRegistry()
		a := aggregator.New(aggregator.Config{Store: st, Services: services.New(services.Config{Store: st}),
			Client: statuses{st}, Metrics: registry})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		synctest.Wait()
		data := st.Snapshot().Get(key).Data
		if !bytes.Contains(data, []byte(`"reason":"FailedDiscoveryCheck"`)) ||
			!bytes.Contains(data, []byte("unable to load root certificates")) {
			t.Errorf("%s", data)
		}
		want := `
# HELP aggregator_unavailable_apiservice Gauge of APIServices which are marked as unavailable broken down by APIService name.
# TYPE aggregator_unavailable_apiservice gauge
aggregator_unavailable_apiservice{name="v1.a.example.com"} 1
`
		err := testutil.GatherAndCompare(registry, strings.NewReader(want),
			"aggregator_unavailable_apiservice")
		assert.NoError(t, err)
		cancel()
		assert.NoError(t, <-ended)
	})
}

// Without APIServices, the handler only checks that there are none.
func BenchmarkHandlerWithoutBackends(b *testing.B) {
	a := aggregator.New(aggregator.Config{})
	handler := a.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	req := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(nil, req)
	}
}
