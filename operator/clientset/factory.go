package clientset

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Option configures a Factory.
type Option func(*options)

type options struct {
	scope     informer.Scope
	transform cache.TransformFunc
	form      informer.Form
	err       error
}

// WithNamespace restricts informers to a namespace.
func WithNamespace(namespace string) Option {
	return func(o *options) {
		if namespace != metav1.NamespaceAll {
			o.scope.Namespaces = []string{namespace}
		}
	}
}

// WithTweakListOptions restricts informers by the selectors that the function sets.
func WithTweakListOptions(tweak func(*metav1.ListOptions)) Option {
	return func(o *options) {
		var list metav1.ListOptions
		tweak(&list)
		var err error
		if list.LabelSelector != "" {
			o.scope.Labels, err = labels.Parse(list.LabelSelector)
			o.err = errors.Join(o.err, err)
		}
		if list.FieldSelector != "" {
			o.scope.Fields, err = fields.ParseSelector(list.FieldSelector)
			o.err = errors.Join(o.err, err)
		}
	}
}

// WithTransform changes objects before they are stored, to save memory.
func WithTransform(transform cache.TransformFunc) Option {
	return func(o *options) { o.transform = transform }
}

// WithForm sets how objects are kept: see [informer.Form].
func WithForm(form informer.Form) Option {
	return func(o *options) { o.form = form }
}

// Factory has the informers of a clientset. It is safe for concurrent use.
type Factory struct {
	set informer.Informers
	err error // of the options; returned by the methods of the informers

	mu      sync.Mutex
	used    map[reflect.Type]*Informer
	started bool
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// NewFactory returns a factory. It starts nothing before Start.
func NewFactory(c client.Client, resync time.Duration, opts ...Option) *Factory {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	f := &Factory{err: o.err, used: map[reflect.Type]*Informer{}}
	cfg := informer.Config{Client: c, Resync: resync, Scope: o.scope, Form: o.form}
	if o.transform != nil {
		cfg.Transform = func(obj client.Object) client.Object {
			if out, err := o.transform(obj); err == nil {
				if out, ok := out.(client.Object); ok {
					return out
				}
			}
			return obj
		}
	}
	var err error
	f.set, err = informer.New(cfg)
	f.err = errors.Join(f.err, err)
	return f
}

// InformerFor returns the informer of an object's kind; repeated calls return the same one.
func (f *Factory) InformerFor(obj client.Object) *Informer {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := reflect.TypeOf(obj)
	if i := f.used[t]; i != nil {
		return i
	}
	i := &Informer{err: f.err}
	if i.err == nil {
		i.shared, i.err = f.set.For(obj)
	}
	f.used[t] = i
	return i
}

// Start runs the informers until the channel is closed. It does not block.
func (f *Factory) Start(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	if !f.start(ctx, cancel) {
		cancel()
		return
	}
	f.running.Go(func() {
		select {
		case <-stop:
		case <-ctx.Done():
		}
		cancel()
	})
}

// StartWithContext runs the informers until the context ends. It does not block.
func (f *Factory) StartWithContext(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	if !f.start(ctx, cancel) {
		cancel()
	}
}

// start starts the informers once.
func (f *Factory) start(ctx context.Context, cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started || f.err != nil {
		return false
	}
	f.started, f.cancel = true, cancel
	f.running.Go(func() { _ = f.set.Run(ctx) }) // it returns nil when ctx ends
	return true
}

// Shutdown stops the informers and waits until all goroutines have returned.
func (f *Factory) Shutdown() {
	f.mu.Lock()
	cancel := f.cancel
	f.started = true // prevents a later start
	f.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	f.running.Wait()
}

// WaitForCacheSync waits until all requested informers have their first list, or the channel is
// closed, and reports which have.
func (f *Factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	synced := map[reflect.Type]bool{}
	for t, i := range f.informers() {
		synced[t] = false
		if i.err != nil {
			continue
		}
		select {
		case <-i.shared.Synced():
			synced[t] = true
		case <-stop:
			synced[t] = i.HasSynced()
		}
	}
	return synced
}

// WaitForCacheSyncWithContext waits until all requested informers have their first list. The error
// says which don't, and why.
func (f *Factory) WaitForCacheSyncWithContext(ctx context.Context) error {
	if f.err != nil {
		return f.err
	}
	var errs []error
	for t, i := range f.informers() {
		if i.err != nil {
			errs = append(errs, fmt.Errorf("informer of %v: %w", t, i.err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return f.set.WaitForSync(ctx)
}

func (f *Factory) informers() map[reflect.Type]*Informer {
	f.mu.Lock()
	defer f.mu.Unlock()
	used := make(map[reflect.Type]*Informer, len(f.used))
	for t, i := range f.used {
		used[t] = i
	}
	return used
}
