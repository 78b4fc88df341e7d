package crd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	strategies "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/store"
)

// Run follows the stored definitions until ctx ends: it empties and removes those that are being deleted, offers names that
// became free to those that wait for them, and registers what others wrote to the same store. It returns when everything it
// started has ended; nil when ctx or the store ended it.
func (d *Definitions) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &runner{Definitions: d, emptying: map[string]bool{}}
	defer r.work.Wait()
	defer cancel()
	for {
		err := r.follow(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, store.ErrClosed):
			return nil
		case errors.Is(err, store.ErrCompacted): // fell behind: begin again with the whole state
		default:
			return err
		}
	}
}

// runner is the state of one Run.
type runner struct {
	*Definitions
	work     sync.WaitGroup
	mu       sync.Mutex
	emptying map[string]bool // definitions that have a goroutine
}

// follow handles the state and then every event, until ctx ends or the cursor fails.
func (r *runner) follow(ctx context.Context) error {
	snapshot := r.store.Snapshot()
	cursor, err := r.store.Watch(r.resource.Prefix(), snapshot.Revision())
	if err != nil {
		return fmt.Errorf("watch definitions: %w", err)
	}
	for obj := range snapshot.Scan(r.resource.Prefix(), "", store.Key{}) {
		if err := r.changed(ctx, obj); err != nil {
			return err
		}
	}
	for {
		events, _, err := cursor.Next()
		if err != nil {
			return fmt.Errorf("follow definitions: %w", err)
		}
		for _, event := range events {
			if event.Type == store.Deleted {
				r.forget(event.Object.Key.Name, event.Revision())
			} else if err := r.changed(ctx, event.Object); err != nil {
				return err
			}
		}
		if len(events) > 0 {
			r.offerNames(ctx)
			continue
		}
		select {
		case <-cursor.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *runner) changed(ctx context.Context, obj *store.Object) error {
	if err := r.observe(obj); err != nil {
		return err
	}
	if !obj.Head.DeletionTimestamp.IsZero() {
		r.empty(ctx, obj.Key.Name)
	}
	return nil
}

// offerNames lets every definition that was refused a name try again. A write that changes nothing is not stored, therefore
// this does not wake itself for ever.
func (r *runner) offerNames(ctx context.Context) {
	for _, name := range r.waiting() {
		// When it fails, the definition waits for the next change.
		_ = r.updateStatus(ctx, name, func(crd *apiextensions.CustomResourceDefinition) {
			r.settle(crd)() // the hook of the write itself makes the claim
		})
	}
}

// waiting lists the definitions that do not have all the names they ask for.
func (d *Definitions) waiting() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for name := range d.refused {
		out = append(out, name)
	}
	return out
}

// updateStatus changes a definition's status and finalizers; one that is gone is no error.
func (d *Definitions) updateStatus(ctx context.Context, name string, change func(*apiextensions.CustomResourceDefinition)) error {
	_, err := d.objects().Update(ctx, d.resource, "", name, strategies.NewStatusStrategy(d.scheme), false,
		func(hub runtime.Object) error {
			change(hub.(*apiextensions.CustomResourceDefinition))
			return nil
		})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// groupOf is the group in a definition's name, which is always <plural>.<group>.
func groupOf(name string) string {
	_, group, _ := strings.Cut(name, ".")
	return group
}
