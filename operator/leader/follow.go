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
	changed chan struct{} // has a value when something changed
	leases  informer.Informers
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// follow watches a Lease, or those in its namespace that a selector selects if it has no name, until stop is called. Of those, it tells
// changes of which that matter.
func follow(ctx context.Context, c client.Client, which client.Key, selector labels.Selector, matters func(*coordinationv1.Lease) bool,
	log *slog.Logger) (*following, error) {
	scope := informer.Scope{Namespaces: []string{which.Namespace}, Labels: selector}
	if which.Name != "" {
		scope.Fields = fields.OneTermEqualSelector("metadata.name", which.Name)
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
		if lease := obj.(*coordinationv1.Lease); (which.Name == "" || lease.Name == which.Name) && (gone || matters(lease)) {
			select {
			case f.changed <- struct{}{}:
			default: // it is to look already
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

// works says whether changes are told at present. They are not where the right to watch is missing.
func (f *following) works() bool {
	for _, s := range f.leases.Statuses() {
		if !s.Synced || s.Err != nil {
			return false
		}
	}
	return true
}

// handler is an informer.Handler that is told of everything in the same way.
type handler func(obj client.Object, gone bool)

func (f handler) OnAdd(obj client.Object, _ bool)    { f(obj, false) }
func (f handler) OnUpdate(_, obj client.Object)      { f(obj, false) }
func (f handler) OnDelete(obj client.Object, _ bool) { f(obj, true) }
