package cluster

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kelson.dev/operator/client"
)

// newLive returns a client of a server. httpClient is nil for transports of its own.
func newLive(config *rest.Config, httpClient *http.Client, scheme *runtime.Scheme, mapper meta.RESTMapper,
	logger *slog.Logger) (client.Client, error) {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	owner, warnings := fieldOwner(config.UserAgent), warningsOf(config)
	if httpClient != nil { // its transport has the credentials
		config = &rest.Config{
			Host: config.Host, APIPath: config.APIPath, UserAgent: config.UserAgent, Transport: httpClient.Transport,
			Timeout: httpClient.Timeout, QPS: config.QPS, Burst: config.Burst, RateLimiter: config.RateLimiter,
		}
		if config.Transport == nil {
			config.Transport = http.DefaultTransport
		}
	}
	throttle(config)
	config.Wrap(countRequests)
	return client.New(client.Config{
		REST: config, Scheme: scheme, Mapper: mapper, FieldOwner: owner, Warnings: warnings, Log: logger,
	})
}

// newMapper returns controller-runtime's mapper of a server, for options without one. A nil
// httpClient means a client made from config.
func newMapper(config *rest.Config, httpClient *http.Client) (meta.RESTMapper, error) {
	if httpClient == nil {
		var err error
		if httpClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, err
		}
	}
	return apiutil.NewDynamicRESTMapper(config, httpClient)
}

// fieldOwner returns the field manager that a server takes from a user agent, so that writes are
// recorded under the same name as those of controller-runtime's client.
func fieldOwner(agent string) string {
	owner, _, _ := strings.Cut(agent, "/")
	printable := func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}
	owner = strings.Map(printable, owner)
	return owner[:min(len(owner), 128)]
}

// warningsOf passes warnings to the handler of a configuration, or else logs them as
// controller-runtime does.
func warningsOf(config *rest.Config) func(context.Context, string) {
	const code = 299
	if h := config.WarningHandlerWithContext; h != nil {
		return func(ctx context.Context, text string) { h.HandleWarningHeaderWithContext(ctx, code, "-", text) }
	}
	if h := config.WarningHandler; h != nil {
		return func(_ context.Context, text string) { h.HandleWarningHeader(code, "-", text) }
	}
	h := log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{})
	return func(ctx context.Context, text string) { h.HandleWarningHeaderWithContext(ctx, code, "-", text) }
}

// countRequests counts responses in the metrics of client-go, which controller-runtime serves as
// rest_client_requests_total.
func countRequests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		code := "<error>"
		if err == nil {
			code = strconv.Itoa(resp.StatusCode)
		}
		metrics.RequestResult.Increment(r.Context(), code, r.Method, r.URL.Host)
		return resp, err
	})
}

// throttle makes a configuration wait for its rate limiter, if it has one. As in
// controller-runtime, QPS and Burst hold for each resource; a RateLimiter holds for all.
// Client-go's default for QPS 0 is not applied.
func throttle(config *rest.Config) {
	if config.RateLimiter == nil && config.QPS <= 0 {
		return
	}
	shared, qps, burst := config.RateLimiter, config.QPS, config.Burst
	if burst <= 0 {
		burst = rest.DefaultBurst
	}
	var mu sync.Mutex
	limiters := map[string]flowcontrol.RateLimiter{}
	limiter := func(resource string) flowcontrol.RateLimiter {
		if shared != nil {
			return shared
		}
		mu.Lock()
		defer mu.Unlock()
		if limiters[resource] == nil {
			limiters[resource] = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
		}
		return limiters[resource]
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if err := limiter(resourceOf(r.URL.Path)).Wait(r.Context()); err != nil {
				return nil, err
			}
			return next.RoundTrip(r)
		})
	})
}

// resourceOf returns the group, version and resource in the path of a request.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for n, part := range parts {
		if part != "api" && part != "apis" {
			continue
		}
		size := 2 // api/v1
		if part == "apis" {
			size = 3 // apis/group/version
		}
		prefix := parts[n:min(len(parts), n+size)]
		rest := parts[n+len(prefix):]
		if len(rest) > 2 && rest[0] == "namespaces" {
			rest = rest[2:]
		}
		return strings.Join(append(append([]string{}, prefix...), rest[:min(len(rest), 1)]...), "/")
	}
	return ""
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reporting reports errors of the lists and watches of informers to a handler of client-go.
type reporting struct {
	client.Client
	failed toolscache.WatchErrorHandlerWithContext
}

func (r *reporting) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	err := r.Client.List(ctx, into, opts...)
	r.report(ctx, into, err)
	return err
}

func (r *reporting) Watch(ctx context.Context, list client.ObjectList,
	opts ...client.ListOption) (watch.Interface, error) {
	w, err := r.Client.Watch(ctx, list, opts...)
	r.report(ctx, list, err)
	return w, err
}

func (r *reporting) report(ctx context.Context, list client.ObjectList, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	kind := ""
	if item, err := client.ItemOf(list, r.Scheme()); err == nil {
		kind = item.GetObjectKind().GroupVersionKind().String()
	}
	// Handlers expect a Reflector, which they log.
	reflector := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{}, nil,
		toolscache.NewStore(toolscache.MetaNamespaceKeyFunc),
		toolscache.ReflectorOptions{Name: "kelson", TypeDescription: kind})
	r.failed(ctx, reflector, err)
}
