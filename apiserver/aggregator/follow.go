package aggregator

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"kelson.dev/apiserver/store"
)

// Run follows the stored APIServices and definitions of custom kinds until ctx ends. It checks
// backends, writes the conditions of APIServices, and keeps the local APIServices of custom kinds
// up to date. When it returns, everything that it started has ended, and all requests go to the
// server's own handlers. Run can be called once.
func (a *Aggregator) Run(ctx context.Context) error {
	defer a.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &follower{Aggregator: a, ctx: ctx, custom: newKeeper(ctx, a)}
	kept := make(chan error, 1)
	go func() {
		defer cancel()
		kept <- f.custom.run()
	}()
	err := a.cfg.Store.Follow(ctx, Resource, f.begin, f.each)
	cancel()
	err = errors.Join(err, <-kept)
	f.stop()
	if errors.Is(err, store.ErrClosed) {
		return nil
	}
	return err
}

// follower applies the stored APIServices. Only the goroutine of Run uses it.
type follower struct {
	*Aggregator
	ctx    context.Context
	custom *keeper
	tasks  sync.WaitGroup
	spec   []byte // buffer of appendLocalSpec
}

// begin applies a whole state.
func (f *follower) begin(sn *store.Snapshot) {
	stored := map[string]bool{}
	for obj := range sn.Scan(Resource, "", store.Key{}) {
		stored[obj.Key.Name] = true
		f.custom.seen(obj, false)
		f.apply(obj)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.backends {
		if !stored[name] {
			f.remove(name)
		}
	}
	for gv := range f.priorities {
		if !stored[nameOf(gv)] {
			delete(f.priorities, gv)
		}
	}
	f.publish()
}

func (f *follower) each(events []*store.Event) {
	for _, e := range events {
		f.custom.seen(e.Object, e.Type == store.Deleted)
		if e.Type != store.Deleted {
			f.apply(e.Object)
			continue
		}
		f.mu.Lock()
		f.remove(e.Object.Key.Name)
		delete(f.priorities, versionOf(e.Object.Key.Name))
		f.mu.Unlock()
		f.counts.forget(e.Object.Key.Name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publish()
}

// apply adds or changes the backend of an APIService.
func (f *follower) apply(obj *store.Object) {
	if f.isLocal(obj) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.remove(obj.Key.Name)
		delete(f.priorities, versionOf(obj.Key.Name))
		return
	}
	service, err := decode(obj)
	if err != nil {
		f.cfg.Log.Error("apply APIService", "err", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	name, gv := service.Metadata.Name, service.Spec.groupVersion()
	delete(f.priorities, gv)
	old := f.backends[name]
	if service.Spec.Service == nil {
		f.remove(name)
		if priorities := service.Spec.priorities(); priorities != f.cfg.Priorities(gv) {
			f.priorities[gv] = priorities
		}
		if now := service.availability(); now.Status != isTrue || now.Reason != localCondition().Reason {
			f.tasks.Go(func() { f.report(f.ctx, name, service.Metadata.UID, localCondition()) })
		}
		return
	}
	if old != nil && old.uid == service.Metadata.UID && old.spec.equal(&service.Spec) {
		return
	}
	f.remove(name)
	f.backends[name] = f.newBackend(f.ctx, service, old)
}

// isLocal reports whether an APIService is certainly local, with the default priorities and the
// right condition. It does not decode the object, because nearly all APIServices are local.
func (f *follower) isLocal(obj *store.Object) bool {
	f.spec = f.appendLocalSpec(f.spec[:0], versionOf(obj.Key.Name))
	return bytes.Contains(obj.Data, f.spec) &&
		bytes.Contains(obj.Data, []byte(`"status":{"conditions":[{"type":"Available","status":"True",`)) &&
		bytes.HasSuffix(obj.Data, []byte(localConditionEnd))
}

// remove stops a backend. The caller holds mu.
func (f *follower) remove(name string) {
	b := f.backends[name]
	if b == nil {
		return
	}
	delete(f.backends, name)
	b.cancel()
	f.tasks.Go(b.close)
}

// stop stops all backends and waits until they have ended.
func (f *follower) stop() {
	f.mu.Lock()
	for name := range f.backends {
		f.remove(name)
	}
	f.publish()
	f.mu.Unlock()
	f.tasks.Wait()
}
