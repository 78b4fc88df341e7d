package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/reconcile"
)

// Cluster is one of the clusters that a manager's controllers look after.
type Cluster struct {
	name      string
	live      client.Client
	informers informer.Informers
	events    *events.Broadcaster
}

// Name is that of reconcile.Request; empty for the manager's own cluster.
func (c *Cluster) Name() string { return c.name }

// Client reads from the informers and writes to the server.
func (c *Cluster) Client() client.Client { return c.informers.Client() }

// LiveClient reads from the server.
func (c *Cluster) LiveClient() client.Client { return c.live }

// Informers are those that Client reads from.
func (c *Cluster) Informers() informer.Informers { return c.informers }

// Recorder records events there, on behalf of a component.
func (c *Cluster) Recorder(component string) *events.Recorder { return c.events.Recorder(component) }

func (m *Manager) newCluster(name string, cfg *rest.Config, live client.Client) (*Cluster, error) {
	if live == nil {
		if cfg == nil {
			return nil, errors.New("a rest.Config is missing")
		}
		cfg = rest.CopyConfig(cfg)
		cfg.Wrap(m.countRequests)
		var err error
		if live, err = client.New(client.Config{REST: cfg, Scheme: m.cfg.Scheme, FieldOwner: m.cfg.Name, Log: m.cfg.Log}); err != nil {
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
	m.sources.add(informers)
	return &Cluster{name: name, live: live, informers: informers, events: events.New(events.Config{Client: live, Log: config.Log})}, nil
}

// countRequests counts what the server answers.
func (m *Manager) countRequests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
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

// AddCluster has the controllers look after a further cluster, at any time. Its requests carry the name. What was said to OnCluster
// makes the sources.
func (m *Manager) AddCluster(name string, cfg *rest.Config) (*Cluster, error) {
	if name == "" {
		return nil, errors.New("add cluster: it needs a name")
	}
	m.mu.Lock()
	if m.clusters[name] != nil {
		m.mu.Unlock()
		return nil, fmt.Errorf("add cluster: there is one named %q", name)
	}
	c, err := m.newCluster(name, cfg, nil)
	if err != nil {
		m.mu.Unlock()
		return nil, fmt.Errorf("add cluster %q: %w", name, err)
	}
	m.sources.add(c.events)
	m.clusters[name] = c
	told := m.onCluster
	m.mu.Unlock()
	for _, f := range told {
		if err := f(c); err != nil {
			return nil, fmt.Errorf("add cluster %q: %w", name, err)
		}
	}
	m.ready.add("informers of "+name, func(context.Context) error { return synced(c) })
	return c, nil
}

// OnCluster calls f for the manager's own cluster and each that was added, now or when it is.
func (m *Manager) OnCluster(f func(*Cluster) error) error {
	m.mu.Lock()
	all := []*Cluster{m.own}
	for _, c := range m.clusters {
		all = append(all, c)
	}
	m.onCluster = append(m.onCluster, f)
	m.mu.Unlock()
	for _, c := range all {
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}

// Cluster finds a cluster by its name.
func (m *Manager) Cluster(name string) (*Cluster, error) {
	if name == "" {
		return m.own, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.clusters[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("there is no cluster named %q", name)
}

// router is a client of the cluster in the context. Its scheme and mapper are those of the manager's own cluster.
type router struct {
	client.Client // of the manager's own cluster
	m             *Manager
	of            func(*Cluster) client.Client
}

func (r router) in(ctx context.Context) (client.Client, error) {
	name := reconcile.Cluster(ctx)
	if name == "" {
		return r.Client, nil
	}
	c, err := r.m.Cluster(name)
	if err != nil {
		return nil, err
	}
	return r.of(c), nil
}

func (r router) do(ctx context.Context, f func(client.Client) error) error {
	c, err := r.in(ctx)
	if err != nil {
		return err
	}
	return f(c)
}

func (r router) Get(ctx context.Context, key client.Key, into client.Object, opts ...client.GetOption) error {
	return r.do(ctx, func(c client.Client) error { return c.Get(ctx, key, into, opts...) })
}

func (r router) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return r.do(ctx, func(c client.Client) error { return c.List(ctx, into, opts...) })
}

func (r router) Create(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return r.do(ctx, func(c client.Client) error { return c.Create(ctx, obj, opts...) })
}

func (r router) Update(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return r.do(ctx, func(c client.Client) error { return c.Update(ctx, obj, opts...) })
}

func (r router) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.WriteOption) error {
	return r.do(ctx, func(c client.Client) error { return c.Patch(ctx, obj, patch, opts...) })
}

func (r router) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return r.do(ctx, func(c client.Client) error { return c.Apply(ctx, obj, opts...) })
}

func (r router) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return r.do(ctx, func(c client.Client) error { return c.Delete(ctx, obj, opts...) })
}

func (r router) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	return r.do(ctx, func(c client.Client) error { return c.DeleteAllOf(ctx, obj, opts...) })
}

func (r router) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (w watch.Interface, err error) {
	err = r.do(ctx, func(c client.Client) error { w, err = c.Watch(ctx, list, opts...); return err })
	return w, err
}

func (r router) Subresource(name string) client.SubresourceWriter { return subresourceRouter{r, name} }

type subresourceRouter struct {
	r    router
	name string
}

func (s subresourceRouter) Get(ctx context.Context, obj client.Object, into runtime.Object) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Get(ctx, obj, into) })
}

func (s subresourceRouter) Create(ctx context.Context, obj client.Object, body runtime.Object, opts ...client.WriteOption) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Create(ctx, obj, body, opts...) })
}

func (s subresourceRouter) Update(ctx context.Context, obj client.Object, body runtime.Object, opts ...client.WriteOption) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Update(ctx, obj, body, opts...) })
}

func (s subresourceRouter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.WriteOption) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Patch(ctx, obj, patch, opts...) })
}

func (s subresourceRouter) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return s.r.do(ctx, func(c client.Client) error { return c.Subresource(s.name).Apply(ctx, obj, opts...) })
}

// InClusterNamespace is the namespace of the pod that the program runs in; empty outside of a cluster.
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
