package devlog

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Watching logs changes of some kinds of a cluster in another process until it is stopped.
type Watching struct {
	informers informer.Informers
	cancel    context.CancelFunc
	ended     sync.WaitGroup
}

// Watch starts to log changes to a. It does not log the objects that already exist.
func Watch(ctx context.Context, a *Log, c client.Client, kinds []schema.GroupVersionKind) (*Watching, error) {
	informers, err := informer.New(informer.Config{Client: c})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &Watching{informers: informers, cancel: cancel}
	w.ended.Go(func() { _ = informers.Run(ctx) })
	for _, kind := range kinds {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kind)
		i, err := informers.For(obj)
		if err == nil {
			_, err = i.AddHandler(&eventHandler{a, kind})
		}
		if err != nil {
			w.Stop()
			return nil, err
		}
	}
	return w, nil
}

// Begun waits until all watches have begun, so that every later change is logged.
func (w *Watching) Begun(ctx context.Context) error { return w.informers.WaitForSync(ctx) }

// Stop stops the informers and waits until they have stopped.
func (w *Watching) Stop() {
	w.cancel()
	w.ended.Wait()
}

// eventHandler converts notifications of an informer to store events.
type eventHandler struct {
	log  *Log
	kind schema.GroupVersionKind
}

func (h *eventHandler) OnAdd(obj client.Object, initial bool) {
	if !initial {
		h.log.Event(&store.Event{Type: store.Added, Object: h.stored(obj)})
	}
}

func (h *eventHandler) OnUpdate(old, obj client.Object) {
	h.log.Event(&store.Event{Type: store.Modified, Object: h.stored(obj), Prev: h.stored(old)})
}

func (h *eventHandler) OnDelete(obj client.Object, _ bool) {
	h.log.Event(&store.Event{Type: store.Deleted, Object: h.stored(obj), Prev: h.stored(obj)})
}

func (h *eventHandler) stored(obj client.Object) *store.Object {
	data, _ := json.Marshal(obj)
	resource := strings.ToLower(h.kind.Kind)
	if h.kind.Kind == "Event" {
		resource = "events"
	}
	o := &store.Object{Key: store.Key{Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName()},
		Data: data,
		Head: store.Head{Generation: obj.GetGeneration()}}
	if at := obj.GetDeletionTimestamp(); at != nil {
		o.Head.DeletionTimestamp = at.Time
	}
	return o
}
