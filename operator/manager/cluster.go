package manager

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/reconcile"
)

// Cluster is one of the clusters that a manager's controllers work on.
type Cluster struct {
	name      string
	live      client.Client
	informers informer.Informers
	events    *events.Broadcaster
	config    *rest.Config // nil if there is only a client
	http      func() (*http.Client, error)

	transports []http.RoundTripper // not shared with other clusters

	// For additional clusters only.
	host      string          // as in the metrics of requests
	unready   func()          // removes its check from /readyz
	engaged   context.Context // ends when the cluster is disengaged
	disengage context.CancelCauseFunc

	behind atomic.Int64 // number of running catch-ups; requests wait while it is positive
	// held while the cluster is engaged or disengaged, and during OnCluster functions
	setup sync.Mutex

	mu     sync.Mutex
	visits int           // requests in progress
	left   chan struct{} // closed when the cluster is disengaged and no request is in progress
}

// Name returns the name as in reconcile.Request; empty for the manager's own cluster.
func (c *Cluster) Name() string { return c.name }

// Client returns a client that reads from the informers and writes to the server.
func (c *Cluster) Client() client.Client { return c.informers.Client() }

// LiveClient returns a client that reads from the server. Reads of Client see its writes.
func (c *Cluster) LiveClient() client.Client { return liveReads{c.Client()} }

// Informers returns the informers that Client reads from.
func (c *Cluster) Informers() informer.Informers { return c.informers }

// Events returns the broadcaster of the cluster's events, to which sinks can be added.
func (c *Cluster) Events() *events.Broadcaster { return c.events }

// Recorder returns a recorder of events in the cluster, on behalf of a component.
func (c *Cluster) Recorder(component string) *events.Recorder { return c.events.Recorder(component) }

// Context ends when the cluster is disengaged, with the cause ErrDisengaged. Anything started for
// the cluster should end with it. The manager's clients use the cluster in this context. The
// context of the manager's own cluster never ends.
func (c *Cluster) Context() context.Context { return c.engaged }

func (m *Manager) newCluster(name string, cfg *rest.Config, live client.Client) (*Cluster, error) {
	c := &Cluster{name: name, left: make(chan struct{})}
	if cfg != nil {
		c.config = rest.CopyConfig(cfg)
	}
	c.http = sync.OnceValues(func() (*http.Client, error) { return m.newHTTPClient(c) })
	c.engaged, c.disengage = context.WithCancelCause(c.in(context.Background()))
	if live == nil {
		if cfg == nil {
			return nil, errors.New("rest.Config is nil")
		}
		url, _, err := rest.DefaultServerUrlFor(cfg)
		if err != nil {
			return nil, err
		}
		c.host = url.Host
		given := cfg.Transport != nil
		cfg = rest.CopyConfig(cfg)
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			if !given {
				c.transports = append(c.transports, next)
			}
			return m.countRequests(c, next)
		})
		if live, err = client.New(client.Config{REST: cfg, Scheme: m.cfg.Scheme, FieldOwner: m.cfg.Name,
			Plain: m.cfg.Plain, Log: m.cfg.Log}); err != nil {
			return nil, err
		}
	}
	config := m.cfg.Informers
	config.Client, config.Log = live, m.cfg.Log
	if name != "" {
		config.Log = config.Log.With("cluster", name)
	}
	informers, err := informer.New(config)
	if err != nil {
		return nil, err
	}
	c.live, c.informers, c.events = live, informers, events.New(events.Config{Client: live, Log: config.Log})
	return c, nil
}

// countRequests counts the responses of a cluster's server while the cluster is engaged.
func (m *Manager) countRequests(c *Cluster, next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if c.engaged.Err() != nil {
			return resp, err
		}
		code := "<error>"
		if err == nil {
			code = strconv.Itoa(resp.StatusCode)
		}
		m.metrics.requests.WithLabelValues(code, r.Method, r.URL.Host).Inc()
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// in returns a context in which the manager's clients use the cluster.
func (c *Cluster) in(ctx context.Context) context.Context {
	return context.WithValue(reconcile.WithCluster(ctx, c.name), clusterKey{}, c)
}

// enter starts work in the cluster, and returns false if it was disengaged.
func (c *Cluster) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engaged.Err() != nil {
		return false
	}
	c.visits++
	return true
}

func (c *Cluster) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.visits--; c.visits == 0 && c.engaged.Err() != nil {
		close(c.left)
	}
}

// close disengages the cluster.
func (c *Cluster) close(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.disengage(cause); c.visits == 0 {
		close(c.left)
	}
}

// run runs the informers and the event writer of an additional cluster until ctx ends, or until the
// cluster is disengaged and either no work is in progress or patience is over.
func (c *Cluster) run(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { _ = c.informers.Run(ctx) }) // Run fails only if called twice
	running.Go(func() { _ = c.events.Run(ctx) })
	select {
	case <-ctx.Done():
	case <-c.engaged.Done():
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-c.left:
		case <-timer.C:
		}
	}
	cancel()
	running.Wait()
	c.closeIdleConnections()
}

func (c *Cluster) closeIdleConnections() {
	for _, t := range c.transports {
		closeIdleConnections(t)
	}
}

func closeIdleConnections(rt http.RoundTripper) {
	for {
		switch t := rt.(type) {
		case interface{ CloseIdleConnections() }:
			t.CloseIdleConnections()
			return
		case utilnet.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return
		}
	}
}

// InClusterNamespace returns the namespace of the program's pod; empty outside of a cluster.
func InClusterNamespace() string {
	if name := os.Getenv("POD_NAMESPACE"); name != "" {
		return name
	}
	data, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func leaseOf(key client.Key) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
	}
}
