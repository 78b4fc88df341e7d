package account

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

// Watching tells an account of some kinds of a cluster that is another process, until it is stopped.
type Watching struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// Watch begins with what is written from now on; what is there already is not told.
func Watch(ctx context.Context, a *Account, c client.Client, kinds []schema.GroupVersionKind) (*Watching, error) {
	informers, err := informer.New(informer.Config{Client: c})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &Watching{cancel: cancel}
	w.ended.Go(func() { _ = informers.Run(ctx) })
	for _, kind := range kinds {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kind)
		i, err := informers.For(obj)
		if err == nil {
			_, err = i.AddHandler(&teller{a, kind})
		}
		if err != nil {
			w.Stop()
			return nil, err
		}
	}
	return w, nil
}

// Stop ends it.
func (w *Watching) Stop() {
	w.cancel()
	w.ended.Wait()
}

// teller makes of what an informer says what a store would have said.
type teller struct {
	account *Account
	kind    schema.GroupVersionKind
}

func (t *teller) OnAdd(obj client.Object, initial bool) {
	if !initial {
		t.account.Event(&store.Event{Type: store.Added, Object: t.stored(obj)})
	}
}

func (t *teller) OnUpdate(old, obj client.Object) {
	t.account.Event(&store.Event{Type: store.Modified, Object: t.stored(obj), Prev: t.stored(old)})
}

func (t *teller) OnDelete(obj client.Object, _ bool) {
	t.account.Event(&store.Event{Type: store.Deleted, Object: t.stored(obj), Prev: t.stored(obj)})
}

func (t *teller) stored(obj client.Object) *store.Object {
	data, _ := json.Marshal(obj)
	resource := strings.ToLower(t.kind.Kind)
	if t.kind.Kind == "Event" {
		resource = "events"
	}
	o := &store.Object{Key: store.Key{Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName()}, Data: data,
		Head: store.Head{Generation: obj.GetGeneration()}}
	if at := obj.GetDeletionTimestamp(); at != nil {
		o.Head.DeletionTimestamp = at.Time
	}
	return o
}
