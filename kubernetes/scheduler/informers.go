package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/kubernetes/controllers/cachesync"
	"kelson.dev/kubernetes/controllers/sharing"
)

// factory is an informer factory that records its informers and their handlers. Its wait
// replaces Scheduler.WaitForHandlersSync, which polls every 100 ms: the tracker of ResourceSlices
// reports that it is ready microseconds after its handlers, from a goroutine of its own. If a poll
// came in between, the first pods waited for the next one.
type factory struct {
	informers.SharedInformerFactory

	mu        sync.Mutex
	informers map[cache.SharedIndexInformer]bool
	added     []cache.DoneChecker
}

func (f *factory) Apps() apps.Interface         { return apps.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Core() core.Interface         { return core.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Policy() policy.Interface     { return policy.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Storage() storage.Interface   { return storage.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Resource() resource.Interface { return resource.New(f, metav1.NamespaceAll, nil) }
func (f *factory) Scheduling() scheduling.Interface {
	return scheduling.New(f, metav1.NamespaceAll, nil)
}

// InformerFor returns the shared informer of a type.
func (f *factory) InformerFor(obj runtime.Object, create internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	shared := f.SharedInformerFactory.InformerFor(obj, create)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.informers[shared] {
		f.informers[shared] = true
		f.added = append(f.added, shared.HasSyncedChecker())
	}
	return recorded{shared, f}
}

// wait waits until the informers have their first lists and all handlers have received them. It
// returns false if ctx ends first. All informers must have been created.
func (f *factory) wait(ctx context.Context, waits *cachesync.Waits) bool {
	f.mu.Lock()
	added := slices.Clone(f.added)
	f.mu.Unlock()
	// The methods of factory may lack a group whose kinds a new version of the scheduler reads.
	others := make(allSynced)
	go func() {
		if f.WaitForCacheSyncWithContext(ctx).AsError() == nil {
			close(others)
		}
	}()
	return waits.For(ctx, "scheduler", append(added, others)...)
}

// allSynced is closed when all informers of a factory have their first lists.
type allSynced chan struct{}

func (allSynced) Name() string            { return "all kinds" }
func (c allSynced) Done() <-chan struct{} { return c }

// recorded is an informer that records its handlers in the factory.
type recorded struct {
	cache.SharedIndexInformer
	factory *factory
}

func (r recorded) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return r.factory.record(r.SharedIndexInformer.AddEventHandler(h))
}

func (r recorded) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return r.factory.record(r.SharedIndexInformer.AddEventHandlerWithResyncPeriod(h, resync))
}

func (r recorded) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return r.factory.record(r.SharedIndexInformer.AddEventHandlerWithOptions(h, options))
}

func (f *factory) record(registration cache.ResourceEventHandlerRegistration,
	err error) (cache.ResourceEventHandlerRegistration, error) {
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.added = append(f.added, registration.HasSyncedChecker())
	}
	return registration, err
}

// withoutUnserved adds informers to the factory that stay empty, for the resources that the API
// server does not serve. Ordinary informers of these resources would never sync, and the scheduler
// would never start.
func (f *factory) withoutUnserved(cfg Config) {
	devices := resourcev1.SchemeGroupVersion
	for name, kind := range map[schema.GroupVersionResource]struct{ object, list runtime.Object }{
		devices.WithResource("resourceclaims"): {&resourcev1.ResourceClaim{},
			&resourcev1.ResourceClaimList{}},
		devices.WithResource("resourceslices"): {&resourcev1.ResourceSlice{},
			&resourcev1.ResourceSliceList{}},
		devices.WithResource("deviceclasses"): {&resourcev1.DeviceClass{},
			&resourcev1.DeviceClassList{}},
		devices.WithResource("devicetaintrules"): {&resourcev1.DeviceTaintRule{},
			&resourcev1.DeviceTaintRuleList{}},
		schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"): {&schedulingv1beta1.PodGroup{},
			&schedulingv1beta1.PodGroupList{}},
		schedulingv1alpha3.SchemeGroupVersion.WithResource("compositepodgroups"): {
			&schedulingv1alpha3.CompositePodGroup{}, &schedulingv1alpha3.CompositePodGroupList{}},
	} {
		if cfg.Serves(name) {
			continue
		}
		f.InformerFor(kind.object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(empty{kind.list}, kind.object, 0,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		})
	}
}

// share adds informers to the factory whose objects other caches share. The scheduler does not see
// pods that have ended, as in Kubernetes (scheduler.NewInformerFactory).
func (f *factory) share(objects *sharing.Caches) {
	f.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		return objects.Pods.Informer("", func(pod *corev1.Pod) bool {
			return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
		}, cache.Indexers{})
	})
	f.InformerFor(&corev1.Node{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		return objects.Nodes.Informer("", nil, cache.Indexers{})
	})
}

// empty lists no objects, and its watches have no events.
type empty struct{ list runtime.Object }

func (e empty) List(metav1.ListOptions) (runtime.Object, error) {
	list := e.list.DeepCopyObject()
	list.(metav1.ListInterface).SetResourceVersion("1")
	return list, nil
}
func (e empty) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

// IsWatchListSemanticsUnSupported makes reflectors call List before Watch.
func (e empty) IsWatchListSemanticsUnSupported() bool { return true }
