package workloads

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// listing is a server without watch lists.
type listing struct{ *cache.ListWatch }

func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// The informers of controllers do not keep managedFields, as in kube-controller-manager.
func TestInformersTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []corev1.Pod{{
					ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"},
						ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				return watch.NewFake(), nil
			},
		}
		s := &informers{}
		read := lazily(s, namespaced(func(kubernetes.Interface, string, time.Duration,
			cache.Indexers) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(listing{pods}, &corev1.Pod{}, 0, cache.Indexers{})
		}), corelisters.NewPodLister)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go read().Informer().RunWithContext(ctx)
		synctest.Wait()
		items := read().Informer().GetStore().List()
		if len(items) != 1 || items[0].(*corev1.Pod).ManagedFields != nil || items[0].(*corev1.Pod).Labels["a"] != "b" {
			t.Errorf("%+v", items)
		}
	})
}

// A running informer does not call the handlers of a controller that is still being constructed:
// its constructor may set what they need after it has registered them, as that of StatefulSets
// does.
func TestHandlersDuringConstruction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"},
					Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				return watch.NewFake(), nil
			},
		}
		var r registrations
		informer := &postponing{cache.NewSharedIndexInformer(listing{pods}, &corev1.Pod{}, 0, cache.Indexers{}), &r}
		ctx, stop := context.WithCancel(t.Context())
		go informer.RunWithContext(ctx)
		var running, constructed, removed atomic.Int32
		counting := func(n *atomic.Int32) cache.ResourceEventHandler {
			return cache.ResourceEventHandlerFuncs{AddFunc: func(any) { n.Add(1) }}
		}
		if _, err := informer.AddEventHandler(counting(&running)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()

		r.begin()
		handle, err := informer.AddEventHandler(counting(&constructed))
		if err != nil {
			t.Fatal(err)
		}
		other, err := informer.AddEventHandlerWithResyncPeriod(counting(&removed), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := informer.RemoveEventHandler(other); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if running.Load() != 1 || constructed.Load() != 0 || handle.HasSynced() {
			t.Errorf("during the construction: %d events for a handler before, %d for its own, synced %v",
				running.Load(), constructed.Load(), handle.HasSynced())
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		<-handle.HasSyncedChecker().Done()
		synctest.Wait()
		if constructed.Load() != 1 || removed.Load() != 0 || !handle.HasSynced() {
			t.Errorf("after it: %d events, %d for a removed handler, synced %v", constructed.Load(), removed.Load(),
				handle.HasSynced())
		}
		stop()
		synctest.Wait()
	})
}
