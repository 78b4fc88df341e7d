package aggregator

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httputil"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/openapi"
	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
)

// The intervals are those of kube-aggregator's controllers, but the first retries come sooner.
const (
	checkEvery    = 30 * time.Second
	describeEvery = time.Minute
	firstRetry    = 100 * time.Millisecond // doubled with each, up to checkEvery
)

// backend is the server of one group version, as one generation of an APIService names it.
type backend struct {
	*Aggregator
	name string // of the APIService
	uid  types.UID
	spec spec
	gv   schema.GroupVersion

	// connections and upgrades connect to the server. Requests that switch protocols use upgrades,
	// because HTTP/2 cannot switch.
	connections, upgrades *http.Transport
	broken                error // the connections could not be configured
	proxy                 *httputil.ReverseProxy

	available atomic.Bool
	changed   chan struct{} // has an element if the Service or its endpoints changed
	cancel    context.CancelFunc
	ended     sync.WaitGroup

	// Only describe, which runs at most once at a time, uses these.
	describing  atomic.Bool
	describedAt time.Time
	etag        string            // of the v2 document
	sum         [sha256.Size]byte // of the v2 document

	// The Aggregator's mu guards these.
	resources []apidiscoveryv2.APIResourceDiscovery
	stale     bool
	described openapi.Other
}

// newBackend starts a backend. If old, the backend of an earlier generation, has the same Service,
// the new backend keeps its state. old may be nil.
func (a *Aggregator) newBackend(ctx context.Context, service *apiService, old *backend) *backend {
	ctx, cancel := context.WithCancel(ctx)
	b := &backend{
		Aggregator: a, name: service.Metadata.Name, uid: service.Metadata.UID, spec: service.Spec,
		gv:      service.Spec.groupVersion(),
		changed: make(chan struct{}, 1), cancel: cancel, stale: true,
	}
	b.available.Store(service.availability().Status == isTrue)
	if old != nil && reflect.DeepEqual(old.spec.Service, service.Spec.Service) {
		b.resources, b.stale, b.described = old.resources, old.stale, old.described
	}
	if b.described.V3 != nil {
		b.described.V3 = b
	}
	b.connect()
	// The first check waits until the store is followed, so that no event after the state that it
	// reads is missed.
	var following sync.WaitGroup
	for _, resource := range []string{services.Services, services.EndpointSlices, services.Endpoints} {
		following.Add(1)
		begun := sync.OnceFunc(following.Done)
		b.ended.Go(func() {
			defer begun()
			// It fails only when the store is closed.
			_ = a.cfg.Store.Follow(ctx, resource, func(*store.Snapshot) {
				b.wake()
				begun()
			}, b.wakeOn)
		})
	}
	b.ended.Go(func() {
		following.Wait()
		b.run(ctx)
	})
	return b
}

// close waits until the backend has ended, and closes its connections that are not in use.
func (b *backend) close() {
	b.ended.Wait()
	if b.broken == nil {
		b.connections.CloseIdleConnections()
		b.upgrades.CloseIdleConnections()
	}
}

// wakeOn requests a check if events are about the Service or its endpoints.
func (b *backend) wakeOn(events []*store.Event) {
	for _, e := range events {
		if b.concerns(e.Object) || e.Prev != nil && b.concerns(e.Prev) {
			b.wake()
			return
		}
	}
}

// wake requests a check of the backend.
func (b *backend) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *backend) concerns(obj *store.Object) bool {
	name := obj.Key.Name
	if obj.Key.Resource == services.EndpointSlices {
		name = obj.Head.Labels[discoveryv1.LabelServiceName]
	}
	return obj.Key.Namespace == b.spec.Service.Namespace && name == b.spec.Service.Name
}

// run checks the backend until ctx ends.
func (b *backend) run(ctx context.Context) {
	retry := firstRetry
	for {
		select {
		case <-b.changed: // the check sees it
		default:
		}
		found := b.check(ctx)
		if ctx.Err() != nil {
			return
		}
		b.apply(found)
		b.report(ctx, b.name, b.uid, found.condition)
		wait := checkEvery
		switch {
		case found.condition.Status == isTrue:
			retry = firstRetry
			b.describeIfDue(ctx)
		case found.retry:
			wait = retry
			retry = min(2*retry, checkEvery)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-b.changed:
			retry = firstRetry
		case <-timer.C:
		}
		timer.Stop()
	}
}

// apply makes the result of a check visible. While a server lists no resources, those that it
// listed last are shown as stale.
func (b *backend) apply(found finding) {
	up := found.condition.Status == isTrue
	b.mu.Lock()
	defer b.mu.Unlock()
	b.available.Store(up)
	changed := b.stale != (found.resources == nil)
	b.stale = found.resources == nil
	if !b.stale && !equality.Semantic.DeepEqual(b.resources, found.resources) {
		b.resources, changed = found.resources, true
	}
	if changed && b.backends[b.name] == b {
		b.publish()
	}
}

// clusterIP reports whether a check can use the ports and endpoints of a Service, because requests
// go to its endpoints.
func clusterIP(service *corev1.Service) bool {
	_, annotated := service.Annotations[services.URL]
	return !annotated && (service.Spec.Type == corev1.ServiceTypeClusterIP || service.Spec.Type == "")
}
