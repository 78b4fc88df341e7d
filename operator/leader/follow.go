package leader

import (
	"context"
	"log/slog"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// following is a watch of Leases.
type following struct {
	changed chan struct{} // receives a value when a Lease changed
	leases  informer.Informers
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// follow watches one Lease or, if key has no name, the Leases in its namespace that a selector
// matches, until stop is called. It reports changes for which matters returns true.
func follow(ctx context.Context, c client.Client, key client.Key, selector labels.Selector,
	matters func(*coordinationv1.Lease) bool,
	log *slog.Logger) (*following, error) {
	scope := informer.Scope{Namespaces: []string{key.Namespace}, Labels: selector}
	if key.Name != "" {
		scope.Fields = fields.OneTermEqualSelector("metadata.name", key.Name)
	}
	leases, err := informer.New(informer.Config{Client: c, Scope: scope, Log: log})
	if err != nil {
		return nil, err
	}
	inf, err := leases.For(&coordinationv1.Lease{})
	if err != nil {
		return nil, err
	}
	f := &following{changed: make(chan struct{}, 1), leases: leases}
	_, err = inf.AddHandler(handler(func(obj client.Object, gone bool) {
		if lease := obj.(*coordinationv1.Lease); (key.Name == "" || lease.Name == key.Name) &&
			(gone || matters(lease)) {
			select {
			case f.changed <- struct{}{}:
			default: // a change is already pending
			}
		}
	}))
	if err != nil {
		return nil, err
	}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.running.Go(func() { _ = leases.Run(ctx) })
	return f, nil
}

func (f *following) stop() {
	f.cancel()
	f.running.Wait()
}

// works reports whether the watch currently delivers changes. It does not without permission to
// watch.
func (f *following) works() bool {
	for _, s := range f.leases.Statuses() {
		if !s.Synced || s.Err != nil {
			return false
		}
	}
	return true
}

// handler is an informer.Handler that calls the function for every event.
type handler func(obj client.Object, gone bool)

func (f handler) OnAdd(obj client.Object, _ bool)    { f(obj, false) }
func (f handler) OnUpdate(_, obj client.Object)      { f(obj, false) }
func (f handler) OnDelete(obj client.Object, _ bool) { f(obj, true) }
