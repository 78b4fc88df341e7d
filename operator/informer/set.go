package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// id tells informers apart: the same kind as a Go type, as a dynamic object and as metadata are three copies.
type id struct {
	kind schema.GroupVersionKind
	form reflect.Type
}

type informers struct {
	cfg    Config
	scopes map[schema.GroupKind]Scope
	forms  map[schema.GroupKind]Form

	running chan struct{} // closed when Run begins
	ended   chan struct{} // closed when Run ends

	mu      sync.Mutex
	members map[id]*informer
	ctx     context.Context // of Run
	closed  bool            // no goroutine may be started any longer
	tasks   sync.WaitGroup
	unshown map[schema.GroupKind]*atomic.Bool // see informer

	opaqueOnce sync.Once
}

var _ Informers = (*informers)(nil)

func (s *informers) For(obj client.Object) (Informer, error) {
	if i, err := s.informerFor(obj, false); err != nil || i.id.form == reflect.TypeOf(obj) {
		return i, err
	} else {
		return hollow{i, reflect.TypeOf(obj)}, nil
	}
}

// informerFor finds or makes an informer. A pinned one does not end with its last handler.
func (s *informers) informerFor(obj client.Object, pin bool) (*informer, error) {
	kind, err := client.KindOf(obj, s.cfg.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("informer for %T: %w", obj, err)
	}
	name := s.idOf(kind, reflect.TypeOf(obj))
	s.mu.Lock()
	defer s.mu.Unlock()
	inf := s.members[name]
	if inf == nil {
		scope, own := s.scopes[kind.GroupKind()]
		if !own {
			scope = s.cfg.Scope
		}
		inf = newInformer(s, name, scope, s.formOf(kind.GroupKind()))
		for _, other := range s.copies(kind.GroupKind()) {
			other.several.Store(true)
			inf.several.Store(true)
		}
		s.members[name] = inf
		s.start(inf)
	}
	if pin {
		inf.pinned.Store(true) // members are not over
	}
	return inf, nil
}

// unshownOf, under the lock, is what the informers of a kind have in common.
func (s *informers) unshownOf(kind schema.GroupKind) *atomic.Bool {
	of := s.unshown[kind]
	if of == nil {
		of = &atomic.Bool{}
		s.unshown[kind] = of
	}
	return of
}

// start, under the lock, runs the informer if Run has begun.
func (s *informers) start(inf *informer) {
	if s.ctx == nil || s.closed {
		return
	}
	s.tasks.Go(func() { inf.run(s.ctx) })
}

// forget ends an informer unless somebody came to hold it meanwhile.
func (s *informers) forget(inf *informer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members[inf.id] == inf && inf.endIfUnused() {
		delete(s.members, inf.id)
	}
}

func (s *informers) all() []*informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*informer
	for _, inf := range s.members {
		all = append(all, inf)
	}
	return all
}

// Run returns nil when ctx has ended and with it every goroutine. It can be called once.
func (s *informers) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.ctx != nil {
		s.mu.Unlock()
		return errors.New("run informers: already run")
	}
	s.ctx = ctx
	for _, inf := range s.members {
		s.start(inf)
	}
	close(s.running)
	s.mu.Unlock()

	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	close(s.ended)
	s.tasks.Wait()
	return nil
}

func (s *informers) WaitForSync(ctx context.Context) error {
	var errs []error
	for _, inf := range s.all() {
		if err := inf.waitSynced(ctx, false); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
