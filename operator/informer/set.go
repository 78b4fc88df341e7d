package informer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// id identifies an informer: the same kind as Go type, dynamic object and metadata has three
// copies.
type id struct {
	kind schema.GroupVersionKind
	form reflect.Type
}

type informers struct {
	cfg        Config
	scopes     map[schema.GroupKind]Scope
	forms      map[schema.GroupKind]Form
	transforms map[schema.GroupKind]func(client.Object) client.Object

	running chan struct{} // closed when Run begins
	ended   chan struct{} // closed when Run ends

	mu      sync.Mutex
	members map[id]*informer
	ctx     context.Context // of Run
	closed  bool            // no more goroutines may start
	tasks   sync.WaitGroup
	unshown map[schema.GroupKind]*atomic.Bool // see informer

	unknownWrites unknownWrites
	opaqueOnce    sync.Once
}

var _ Informers = (*informers)(nil)

func (s *informers) For(obj client.Object) (Informer, error) {
	if i, err := s.informerFor(obj, false); err != nil || i.id.form == reflect.TypeOf(obj) {
		return i, err
	} else {
		return metadataView{i, reflect.TypeOf(obj)}, nil
	}
}

func (s *informers) ScopeOf(obj client.Object) (Scope, error) {
	kind, err := client.KindOf(obj, s.cfg.Client.Scheme())
	if err != nil {
		return Scope{}, fmt.Errorf("scope of %T: %w", obj, err)
	}
	return s.scopeOf(kind.GroupKind()), nil
}

func (s *informers) scopeOf(kind schema.GroupKind) Scope {
	if scope, ok := s.scopes[kind]; ok {
		return scope
	}
	return s.cfg.Scope
}

// informerFor returns the informer for obj, creating it if necessary. A pinned informer does not
// end with its last handler.
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
		inf = newInformer(s, name, s.scopeOf(kind.GroupKind()), s.formOf(kind.GroupKind()))
		for _, other := range s.copies(kind.GroupKind()) {
			other.several.Store(true)
			inf.several.Store(true)
		}
		s.members[name] = inf
		s.start(inf)
	}
	if pin {
		inf.pinned.Store(true) // members have not ended
	}
	return inf, nil
}

// unshownOf returns the flag that the informers of a kind share. The caller holds the lock.
func (s *informers) unshownOf(kind schema.GroupKind) *atomic.Bool {
	unshown := s.unshown[kind]
	if unshown == nil {
		unshown = &atomic.Bool{}
		s.unshown[kind] = unshown
	}
	return unshown
}

// start runs the informer if Run was called. The caller holds the lock.
func (s *informers) start(inf *informer) {
	if s.ctx == nil || s.closed {
		return
	}
	s.tasks.Go(func() { inf.run(s.ctx) })
}

func (s *informers) Remove(obj client.Object, o ...RemoveOption) {
	kind, err := client.KindOf(obj, s.cfg.Client.Scheme())
	if err != nil {
		return // an object without a kind has no informer
	}
	name := s.idOf(kind, reflect.TypeOf(obj))
	s.mu.Lock()
	defer s.mu.Unlock()
	inf := s.members[name]
	switch {
	case inf == nil:
	case slices.Contains(o, InUse):
		delete(s.members, name)
		inf.endNow()
	case !inf.indexed.Load():
		inf.pinned.Store(false)
		s.forgetLocked(inf)
	}
}

// forget ends an informer if it is still unused.
func (s *informers) forget(inf *informer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(inf)
}

// forgetLocked is forget for callers that hold the lock.
func (s *informers) forgetLocked(inf *informer) {
	if s.members[inf.id] == inf && inf.endIfUnused() {
		delete(s.members, inf.id)
	}
}

func (s *informers) all() []*informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.members))
}

// Run returns nil after ctx has ended and all goroutines have returned. It can be called only once.
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
