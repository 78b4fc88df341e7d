package delegated

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/apiserver/store"
)

// configuration lists the kinds whose objects are copied from a cluster: the configuration of flow
// control and of admission, and the objects that its selectors and addresses refer to. The server
// continues without the objects of an optional kind if it may not read them.
var configuration = []struct {
	schema.GroupVersionResource
	optional bool
}{
	{schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"}, false},
	{schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1",
		Resource: "prioritylevelconfigurations"}, false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "mutatingwebhookconfigurations"}, false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingwebhookconfigurations"}, false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingadmissionpolicies"}, false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingadmissionpolicybindings"}, false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "mutatingadmissionpolicies"}, false},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "mutatingadmissionpolicybindings"}, false},
	{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, false},
	// Only for the annotations of Services.
	{schema.GroupVersionResource{Version: "v1", Resource: "services"}, true},
}

const (
	// retryMin and retryMax bound the intervals at which a failed list or watch is repeated.
	retryMin, retryMax = time.Second, 30 * time.Second
	// refusedRetry is how long to wait after the cluster has refused a list, or does not serve it.
	refusedRetry = time.Minute
)

// follow copies the configuration of the cluster to d.Objects until ctx ends. It returns when each
// kind was read or refused.
func (d *Delegation) follow(ctx context.Context, cfg Config) error {
	client, err := dynamic.NewForConfig(cfg.Cluster)
	if err != nil {
		return fmt.Errorf("create client of the cluster: %w", err)
	}
	var first sync.WaitGroup
	for _, kind := range configuration {
		c := &copied{
			gvr: kind.GroupVersionResource, optional: kind.optional, to: d.Objects,
			from: client.Resource(kind.GroupVersionResource), log: cfg.Log,
		}
		first.Add(1)
		c.decided = sync.OnceFunc(first.Done)
		go c.run(ctx)
	}
	all := make(chan struct{})
	go func() {
		first.Wait()
		close(all)
	}()
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(timeout):
		return fmt.Errorf("read the cluster's admission and flow control configuration: no answer within %s", timeout)
	}
}

// copied is a kind whose objects are copied from the cluster to a store. It implements
// cache.ReflectorStore.
type copied struct {
	gvr      schema.GroupVersionResource
	optional bool
	from     dynamic.ResourceInterface
	to       *store.Store
	log      *slog.Logger
	decided  func() // the kind was read or refused
}

// run follows the kind until ctx ends.
func (c *copied) run(ctx context.Context) {
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return c.from.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.from.Watch(ctx, options)
		},
	}, &unstructured.Unstructured{}, c, cache.ReflectorOptions{Name: "delegated", TypeDescription: c.gvr.String()})
	retry, warned := retryMin, false
	for ctx.Err() == nil {
		begin := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if time.Since(begin) > retryMax {
			retry = retryMin
		}
		wait := retry
		switch {
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			// Not found means that the cluster does not serve the kind.
			c.decided()
			if !warned && !c.optional && apierrors.IsForbidden(err) {
				c.log.Warn("the cluster's "+c.gvr.Resource+
					" are not applied; allow the server's account to list and watch them", "err", err)
				warned = true
			}
			wait = refusedRetry
		case err != nil && ctx.Err() == nil:
			c.log.Warn("follow the cluster's "+c.gvr.Resource, "err", err)
			retry = min(2*retry, retryMax)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

func (c *copied) resource() string { return c.gvr.GroupResource().String() }

func (c *copied) key(obj *unstructured.Unstructured) store.Key {
	return store.Key{Resource: c.resource(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func (c *copied) put(obj *unstructured.Unstructured) (store.Op, error) {
	obj.SetManagedFields(nil)
	data, err := obj.MarshalJSON()
	return store.Op{Key: c.key(obj), Data: data, Expect: store.AnyRevision}, err
}

// commit writes to the store. It has no deadline: the store is in memory.
func (c *copied) commit(ops ...store.Op) error {
	_, err := c.to.Commit(context.Background(), ops...)
	if errors.Is(err, store.ErrClosed) {
		return nil // the delegation has ended
	}
	return err
}

// Add implements cache.ReflectorStore.
func (c *copied) Add(obj any) error {
	op, err := c.put(obj.(*unstructured.Unstructured))
	if err != nil {
		return err
	}
	return c.commit(op)
}

// Update implements cache.ReflectorStore.
func (c *copied) Update(obj any) error { return c.Add(obj) }

// Delete implements cache.ReflectorStore.
func (c *copied) Delete(obj any) error {
	key := c.key(obj.(*unstructured.Unstructured))
	if c.to.Snapshot().Get(key) == nil {
		return nil
	}
	return c.commit(store.Op{Key: key, Expect: store.AnyRevision})
}

// Replace implements cache.ReflectorStore. It replaces all objects of the kind by the given ones,
// in one step.
func (c *copied) Replace(objects []any, _ string) error {
	var ops []store.Op
	listed := map[store.Key]bool{}
	for _, obj := range objects {
		op, err := c.put(obj.(*unstructured.Unstructured))
		if err != nil {
			return err
		}
		listed[op.Key] = true
		ops = append(ops, op)
	}
	for obj := range c.to.Snapshot().Scan(c.resource(), "", store.Key{}) {
		if !listed[obj.Key] {
			ops = append(ops, store.Op{Key: obj.Key, Expect: store.AnyRevision})
		}
	}
	if len(ops) > 0 {
		if err := c.commit(ops...); err != nil {
			return err
		}
	}
	c.decided()
	return nil
}

// Resync implements cache.ReflectorStore.
func (c *copied) Resync() error { return nil }
