package crd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/store"
)

// Run follows the stored definitions until ctx ends. It deletes definitions that are being deleted,
// after their instances. It assigns names that became free to definitions that wait for them. It
// registers definitions that other servers wrote to the same store. It returns after everything
// that it started has ended, with nil if ctx ended or the store was closed.
func (d *Definitions) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &runner{Definitions: d, removing: map[string]bool{}, offering: map[string]bool{}, stop: cancel}
	defer r.work.Wait()
	defer cancel()
	err := r.store.Follow(ctx, r.resource.Prefix(), func(snapshot *store.Snapshot) {
		for obj := range snapshot.Scan(r.resource.Prefix(), "", store.Key{}) {
			r.changed(ctx, obj)
		}
	}, func(events []*store.Event) {
		for _, event := range events {
			if event.Type == store.Deleted {
				r.forget(event.Object.Key.Name, event.Revision())
			} else {
				r.changed(ctx, event.Object)
			}
		}
		r.offerNames(ctx)
	})
	switch {
	case r.failed != nil:
		return r.failed
	case ctx.Err() != nil, errors.Is(err, store.ErrClosed):
		return nil
	}
	return err
}

// runner is the state of one Run.
type runner struct {
	*Definitions
	work     sync.WaitGroup
	mu       sync.Mutex
	removing map[string]bool // definitions whose instances a goroutine deletes
	offering map[string]bool // definitions whose names a goroutine retries

	stop   context.CancelFunc // ends Run
	failed error              // the first definition that could not be read
}

// changed handles a stored definition. If it cannot be read, Run ends.
func (r *runner) changed(ctx context.Context, obj *store.Object) {
	if r.failed != nil {
		return
	}
	if r.failed = r.observe(obj); r.failed != nil {
		r.stop()
		return
	}
	if !obj.Head.DeletionTimestamp.IsZero() {
		r.startRemoval(ctx, obj.Key.Name)
	}
}

// offerNames retries the names of every definition that was refused one. The store drops writes
// that change nothing, so this does not trigger itself forever. After an error, such as that of a
// webhook, it retries in the background: no other change may follow.
func (r *runner) offerNames(ctx context.Context) {
	for _, name := range r.waiting() {
		if r.offer(ctx, name) != nil {
			r.retry(ctx, r.offering, name, func() error { return r.offer(ctx, name) })
		}
	}
}

// offer retries the names of one definition if it still waits for them.
func (r *runner) offer(ctx context.Context, name string) error {
	if !slices.Contains(r.waiting(), name) {
		return nil
	}
	return r.updateStatus(ctx, name, func(crd *apiextensions.CustomResourceDefinition) {
		r.setStatus(crd)() // releases the claim: the hook of the write claims again
	})
}

// retry starts a goroutine that calls do until it returns nil or ctx ends, unless one is running
// for the name. The waits between calls start with 10 ms and double up to 10 s.
func (r *runner) retry(ctx context.Context, running map[string]bool, name string, do func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if running[name] {
		return
	}
	running[name] = true
	r.work.Go(func() {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(running, name)
		}()
		for wait := 10 * time.Millisecond; do() != nil; wait = min(2*wait, 10*time.Second) {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
	})
}

// waiting returns the definitions that do not have all names of their specs.
func (d *Definitions) waiting() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.refused))
}

// updateStatus changes a definition's status and finalizers. It returns nil if the definition no
// longer exists.
func (d *Definitions) updateStatus(ctx context.Context, name string,
	change func(*apiextensions.CustomResourceDefinition)) error {
	_, err := d.objects().UpdateStatus(ctx, d.resource, "", name, false, func(hub runtime.Object) error {
		change(hub.(*apiextensions.CustomResourceDefinition))
		return nil
	})
	if apierrors.IsNotFound(err) && d.store.Snapshot().Get(d.resource.Key("", name)) == nil {
		return nil
	}
	return err
}

// groupOf returns the group in a definition's name, which is always <plural>.<group>.
func groupOf(name string) string {
	_, group, _ := strings.Cut(name, ".")
	return group
}
