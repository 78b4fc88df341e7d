package history

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Recorder records all objects of a cluster: it lists and watches every resource that the cluster
// serves, and those that are added later.
type Recorder struct {
	Config *rest.Config
	To     *Writer
	// Secrets records the values of Secrets. Without it, they are empty in the history.
	Secrets bool
	// Log is called with errors after which recording continues. It may be called concurrently.
	Log func(error)
}

const (
	discoverEvery = 10 * time.Second // time until a new resource is recorded
	flushEvery    = time.Second      // a crash loses at most the versions of this time
	retryAfter    = time.Second
	pageSize      = 500
)

// Run records until parent ends, and then returns nil. It returns an error if the cluster's
// resources can't be discovered at the start, or if the history can't be written.
func (r *Recorder) Run(parent context.Context) error {
	config := rest.CopyConfig(r.Config)
	config.QPS = -1 // a list per resource, once
	// do not warn about deprecated resources, which a recorder also lists
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var watches sync.WaitGroup
	type version struct {
		name string
		stop context.CancelFunc
	}
	started := map[string]version{} // by resource
	discover := func() error {
		found, err := resources(finder)
		served := map[string]bool{}
		for _, res := range found {
			served[res.Name()] = true
			if v, ok := started[res.Name()]; ok {
				if v.name == res.Version {
					continue
				}
				v.stop() // the cluster may stop serving this version
			}
			if err := r.To.Resource(res); err != nil {
				return err
			}
			one := &recording{r: r, res: res,
				client: client.Resource(schema.GroupVersionResource{Group: res.Group, Version: res.Version,
					Resource: res.Resource}), fail: cancel}
			ctx, stop := context.WithCancel(ctx)
			started[res.Name()] = version{res.Version, stop}
			watches.Go(func() { one.run(ctx) })
		}
		for name, v := range started {
			if err == nil && !served[name] {
				v.stop()
				delete(started, name)
			}
		}
		return err
	}
	if err := discover(); err != nil && len(started) == 0 {
		return fmt.Errorf("discover resources: %w", err)
	}
	last := time.Now()
	for ctx.Err() == nil {
		pause(ctx, flushEvery)
		if err := r.To.Flush(); err != nil {
			cancel(err)
		} else if time.Since(last) >= discoverEvery && ctx.Err() == nil {
			last = time.Now()
			if err := discover(); err != nil {
				r.Log(fmt.Errorf("discover resources: %w", err))
			}
		}
	}
	watches.Wait()
	if err := r.To.Flush(); err != nil {
		return err
	}
	if parent.Err() == nil {
		return context.Cause(ctx)
	}
	return nil
}

// resources returns the resources that can be listed and watched, each in its preferred version.
// Like kubectl get, it continues with the groups that respond.
func resources(finder discovery.DiscoveryInterface) (found []Resource, err error) {
	lists, err := finder.ServerPreferredResources()
	for _, list := range lists {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			continue
		}
		for _, api := range list.APIResources {
			verbs := strings.Join(api.Verbs, " ") + " "
			if strings.Contains(api.Name, "/") || !strings.Contains(verbs, "list ") ||
				!strings.Contains(verbs, "watch ") {
				continue
			}
			if gv.Group == "events.k8s.io" && api.Name == "events" {
				continue // the same objects as the core group's
			}
			found = append(found, Resource{Group: gv.Group, Version: gv.Version, Resource: api.Name, Kind: api.Kind,
				Singular: api.SingularName, ShortNames: api.ShortNames, Namespaced: api.Namespaced})
		}
	}
	return found, err
}

// recording records one resource.
type recording struct {
	r      *Recorder
	res    Resource
	client dynamic.NamespaceableResourceInterface
	fail   context.CancelCauseFunc // for errors of the history
}

func (r *recording) run(ctx context.Context) {
	revision := "" // of the newest state; empty: list again
	for ctx.Err() == nil {
		var err error
		if revision == "" {
			revision, err = r.list(ctx)
		}
		if err == nil {
			revision, err = r.watch(ctx, revision)
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			revision = ""
			continue
		}
		if err != nil && ctx.Err() == nil {
			r.r.Log(fmt.Errorf("record %s: %w", r.res.Name(), err))
			pause(ctx, retryAfter)
		}
	}
}

// list records the current state and returns its revision. Objects in the history that the state
// lacks were deleted while no watch was open; list records their deletion at the state's revision.
func (r *recording) list(ctx context.Context) (string, error) {
	gone := map[Key]bool{}
	for _, key := range r.r.To.Existing(r.res.Name()) {
		gone[key] = true
	}
	opts := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := r.client.List(ctx, opts)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			delete(gone, r.key(&page.Items[i]))
			if err := r.put(&page.Items[i]); err != nil {
				return "", err
			}
		}
		if opts.Continue = page.GetContinue(); opts.Continue != "" {
			continue
		}
		revision, err := strconv.ParseUint(page.GetResourceVersion(), 10, 64)
		if err != nil {
			return "", fmt.Errorf("resourceVersion of the list: %w", err)
		}
		for key := range gone {
			if err := r.written(r.r.To.Delete(key, revision, time.Now())); err != nil {
				return "", err
			}
		}
		return page.GetResourceVersion(), nil
	}
}

// watch records events after a revision. It returns the revision from which to continue.
func (r *recording) watch(ctx context.Context, revision string) (string, error) {
	w, err := r.client.Watch(ctx, metav1.ListOptions{ResourceVersion: revision, AllowWatchBookmarks: true})
	if err != nil {
		return revision, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return revision, apierrors.FromObject(e.Object)
		}
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return revision, fmt.Errorf("unexpected %T in a watch", e.Object)
		}
		switch e.Type {
		case watch.Added, watch.Modified:
			err = r.put(obj)
		case watch.Deleted:
			var at uint64
			if at, err = strconv.ParseUint(obj.GetResourceVersion(), 10, 64); err == nil {
				err = r.written(r.r.To.Delete(r.key(obj), at, time.Now()))
			}
		}
		if err != nil {
			return revision, err
		}
		revision = obj.GetResourceVersion()
	}
	return revision, nil
}

func (r *recording) key(obj *unstructured.Unstructured) Key {
	return Key{r.res.Name(), obj.GetNamespace(), obj.GetName()}
}

func (r *recording) put(obj *unstructured.Unstructured) error {
	revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("resourceVersion of %v: %w", r.key(obj), err)
	}
	data, err := obj.MarshalJSON()
	if err == nil && !r.r.Secrets {
		data, err = Redact(data)
	}
	if err != nil {
		return err
	}
	return r.written(r.r.To.Put(r.key(obj), revision, time.Now(), data))
}

// written ends the recorder if err is an error of writing the history.
func (r *recording) written(err error) error {
	if err != nil {
		r.fail(err)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
