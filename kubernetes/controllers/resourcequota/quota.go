// Package resourcequota keeps the status of ResourceQuotas: the limits that are in force, and what is used of them.
//
// Admission counts what is created together with the write (package resourcequota below apiserver/admission). What is left is done here,
// on the store's events: a new quota or new limits, and all that frees something, such as a deletion or a pod's end. A quota is measured
// in one snapshot and written only over the revision it has there; since everything that is counted writes the quota, what is
// written is exact.
//
// Before the first quota exists only quotas are looked at.
package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/kubernetes/quota"
)

// Config is what the controller works on.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	Log      *slog.Logger
}

// Controller is the controller of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; Run makes it work.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run works until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.wait(ctx); err != nil || ctx.Err() != nil {
		return ignoreClosed(err)
	}
	return follow.Run(ctx, follow.Config[store.Key]{
		Name: "resource quota", Store: c.cfg.Store, Resources: []string{""}, Log: c.cfg.Log, Sync: c.sync,
		Keys: func(obj *store.Object, add func(store.Key)) {
			if obj.Key.Resource == quota.Resource {
				add(obj.Key)
			}
		},
		Event: c.event,
	})
}

// wait returns when there is a quota.
func (c *Controller) wait(ctx context.Context) error {
	ctx, there := context.WithCancel(ctx)
	defer there()
	return c.cfg.Store.Follow(ctx, quota.Resource, func(sn *store.Snapshot) {
		if sn.Count(quota.Resource, "") > 0 {
			there()
		}
	}, func([]*store.Event) { there() })
}

func ignoreClosed(err error) error {
	if errors.Is(err, store.ErrClosed) {
		return nil
	}
	return err
}

// event adds the quotas that an event may have made wrong.
func (c *Controller) event(e *store.Event, add func(store.Key)) {
	if e.Object.Key.Resource == quota.Resource && e.Type != store.Deleted {
		if e.Type == store.Added || statusLags(e) {
			add(e.Object.Key)
		}
		return
	}
	if e.Object.Key.Namespace == "" || e.Type == store.Added {
		return
	}
	if e.Type == store.Modified {
		// What can't be read may be anything.
		if frees, err := quota.Frees(e.Prev, e.Object); err == nil && !frees {
			return
		}
	}
	for obj := range c.cfg.Store.Snapshot().Scan(quota.Resource, e.Object.Key.Namespace, store.Key{}) {
		add(obj.Key)
	}
}

// statusLags says whether a written quota limits otherwise than its status says, be it by new limits or by a status that somebody wrote.
func statusLags(e *store.Event) bool {
	q, err := derived.Of[corev1.ResourceQuota](e.Object)
	return err != nil || !upstream.Equals(q.Spec.Hard, q.Status.Hard)
}

func (c *Controller) sync(ctx context.Context, key store.Key) (time.Duration, error) {
	for {
		sn := c.cfg.Store.Snapshot()
		q, changed, err := quota.Counted(sn, key)
		if err != nil || !changed {
			return 0, err
		}
		op, err := quota.Write(c.cfg.Registry, sn, q)
		if err != nil {
			return 0, err
		}
		_, err = c.cfg.Store.Commit(ctx, op)
		var conflict *store.ConflictError
		switch {
		case errors.As(err, &conflict) && ctx.Err() == nil: // something else was counted meanwhile
		case err != nil:
			return 0, fmt.Errorf("write quota: %w", err)
		default:
			return 0, nil
		}
	}
}
