// Package namespace replaces namespace-controller: it deletes the contents of namespaces that are
// being deleted, and then finalizes the namespaces.
//
// A deleted namespace gets the phase Terminating and keeps the finalizer "kubernetes" in its spec.
// The controller deletes all objects in it, pods first, waits for those that need time (pods that
// are stopping, objects with finalizers), and removes the finalizer when the namespace is empty. It
// is driven by the store's events and reads the store's index by namespace: no discovery, no
// polling. It deletes through the API, one request for all objects of a kind, so that admission and
// audit apply. A deletion that is denied keeps the namespace; the condition
// NamespaceDeletionContentFailure says why, and the controller tries again.
//
// If APIServices refer to other API servers, it also deletes the objects in these, finds their
// resources by discovery, and retries until they are empty. A server that does not answer keeps the
// namespace, because it may hold objects in it.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/aggregated"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/kubernetes/controllers/objects"
	"kelson.dev/operator/client"
	"kelson.dev/operator/workqueue"
)

const (
	namespaces = "namespaces"
	pods       = "pods"
)

// Config configures the controller. All fields except Servers and Log are required.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Objects deletes the contents of namespaces.
	Objects *objects.Client
	// Client writes the status and the finalizers of namespaces.
	Client client.Client
	// Servers are the API servers behind this one; nil means that there are none.
	Servers *aggregated.Servers
	Log     *slog.Logger
}

// Controller is the namespace controller of one control plane.
type Controller struct {
	cfg   Config
	queue *workqueue.Queue[string, struct{}]

	// alone has a capacity of one. It is full while a namespace is processed and there are no other
	// servers.
	alone chan struct{}
}

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Controller{cfg: cfg, alone: make(chan struct{}, 1)}
}

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = workqueue.New(workqueue.Config[string, struct{}]{Limiter: workqueue.MaxOf[string]{
		&workqueue.Exponential[string]{Base: 5 * time.Millisecond, Max: maxRetry},
		&workqueue.Bucket[string]{Every: 100 * time.Millisecond, Burst: 100},
	}})
	ctx, cancel := context.WithCancel(ctx)
	stop := c.queue.Start(concurrent, func(next workqueue.Item[string, struct{}]) { c.work(ctx, next.Key) })
	defer stop()
	defer c.queue.ShutDown()
	var following sync.WaitGroup
	if c.cfg.Servers != nil {
		following.Go(func() { c.cfg.Servers.Follow(ctx, func() { c.serversChanged() }) })
	}
	defer following.Wait()
	subscription := c.cfg.Store.Subscribe([]string{""}, c.begin, c.follow)
	defer subscription.End()
	defer cancel()
	select {
	case <-ctx.Done():
	case <-subscription.Closed():
	}
	return nil
}

// Both are as in Kubernetes.
const (
	maxRetry = time.Minute
	// concurrent is how many namespaces are processed concurrently if there are other servers,
	// which may be slow.
	concurrent = 10
)

func (c *Controller) begin(sn *store.Snapshot) {
	for ns := range sn.Scan(namespaces, "", store.Key{}) {
		c.consider(ns)
	}
}

// serversChanged queues the namespaces that wait for another server.
func (c *Controller) serversChanged() { c.begin(c.cfg.Store.Snapshot()) }

// follow queues namespaces that are being deleted, and those from which an object was deleted.
func (c *Controller) follow(e *store.Event) {
	switch {
	case e.Object.Key.Resource == namespaces:
		c.consider(e.Object)
	case e.Object.Key.Namespace != "" && e.Type == store.Deleted:
		if ns := c.cfg.Store.Snapshot().Get(store.Key{Resource: namespaces, Name: e.Object.Key.Namespace}); ns != nil {
			c.consider(ns)
		}
	}
}

func (c *Controller) consider(ns *store.Object) {
	if !ns.Head.DeletionTimestamp.IsZero() {
		c.queue.Add(ns.Key.Name, struct{}{})
	}
}

func (c *Controller) work(ctx context.Context, name string) {
	if !c.cfg.Servers.Any() { // process one namespace at a time
		c.alone <- struct{}{}
		defer func() { <-c.alone }()
	}
	if ctx.Err() != nil {
		return
	}
	if err := c.empty(ctx, name); err != nil && ctx.Err() == nil {
		if !apierrors.IsConflict(err) {
			c.cfg.Log.Warn("empty namespace", "namespace", name, "err", err)
		}
		c.queue.AddRateLimited(name, struct{}{})
	} else {
		c.queue.Forget(name)
	}
}

// empty deletes the objects in a terminating namespace, and finalizes the namespace when it is
// empty. As in Kubernetes, pods are deleted first, and other objects after all pods have been
// removed. Pods that are stopping may need other objects, such as the NetworkPolicies that protect
// them.
func (c *Controller) empty(ctx context.Context, name string) error {
	key := store.Key{Resource: namespaces, Name: name}
	sn := c.cfg.Store.Snapshot()
	if ns := sn.Get(key); ns == nil || ns.Head.DeletionTimestamp.IsZero() {
		return nil
	}
	found := content{left: map[string]int{}, finalizers: map[string]int{}}
	c.deleteStored(ctx, sn.Scan(pods, name, store.Key{}), &found)
	wait := false
	left := c.cfg.Store.Snapshot().Scan(pods, name, store.Key{})
	none := true
	for range left {
		none = false
		break
	}
	if none {
		c.deleteStored(ctx, sn.InNamespace(name), &found)
		wait = c.cfg.Servers.Any() && c.emptyServers(ctx, name, &found)
		left = c.cfg.Store.Snapshot().InNamespace(name)
	}
	for obj := range left {
		found.left[qualified(obj.Key.Resource)]++
		for _, f := range obj.Head.Finalizers {
			found.finalizers[f]++
		}
	}
	if err := c.report(ctx, key, &found); err != nil || found.empty() {
		return err
	}
	err := errors.Join(append(found.failed, found.undiscovered)...)
	if err == nil && wait {
		c.queue.AddAfter(name, struct{}{}, remaining)
	}
	return err // nil: the event of the last deletion in the store queues the namespace again
}

// report writes what keeps the namespace to its conditions, and finalizes it if that is nothing.
func (c *Controller) report(ctx context.Context, key store.Key, found *content) error {
	ns := &corev1.Namespace{}
	if err := c.cfg.Client.Get(ctx, client.Key{Name: key.Name}, ns); err != nil {
		return follow.IgnoreGone(c.cfg.Store, key, "", err)
	}
	if setConditions(ns, found) {
		if err := c.cfg.Client.Subresource("status").Update(ctx, ns, nil); err != nil {
			return follow.IgnoreGone(c.cfg.Store, key, ns.UID, err)
		}
	}
	if !found.empty() {
		return nil
	}
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool {
		return f == corev1.FinalizerKubernetes
	})
	return follow.IgnoreGone(c.cfg.Store, key, ns.UID, c.cfg.Client.Subresource("finalize").Update(ctx, ns, nil))
}

// deleteStored deletes the objects that are not being deleted already: all of a kind with one
// request, as Kubernetes' controller does, so that one denied deletion does not keep the objects of
// other kinds.
func (c *Controller) deleteStored(ctx context.Context, stored iter.Seq[*store.Object], found *content) {
	asked := map[string]bool{}
	for obj := range stored {
		if !obj.Head.DeletionTimestamp.IsZero() || asked[obj.Key.Resource] {
			continue
		}
		res, ok := c.cfg.Registry.Current().ByPrefix(obj.Key.Resource)
		if !ok {
			found.failed = append(found.failed, fmt.Errorf("delete %s %s: its kind is not served", obj.Key.Resource,
				obj.Key.Name))
			continue
		}
		if err := c.deleteKind(ctx, res, obj, asked); err != nil {
			found.failed = append(found.failed, err)
		}
	}
}

// deleteKind deletes all objects of a kind in the namespace of obj, or only obj if the server does
// not delete collections of the kind.
func (c *Controller) deleteKind(ctx context.Context, res *resource.Resource, obj *store.Object,
	asked map[string]bool) error {
	background := metav1.DeletePropagationBackground
	opts := &metav1.DeleteOptions{PropagationPolicy: &background}
	if objects.Allows(res, resource.DeleteCollection) {
		asked[obj.Key.Resource] = true
		return c.cfg.Objects.DeleteCollection(ctx, res, obj.Key.Namespace, opts)
	}
	opts.Preconditions = &metav1.Preconditions{UID: &obj.Head.UID}
	err := c.cfg.Objects.Delete(ctx, res, obj.Key.Namespace, obj.Key.Name, opts)
	return follow.IgnoreGone(c.cfg.Store, obj.Key, obj.Head.UID, err)
}
