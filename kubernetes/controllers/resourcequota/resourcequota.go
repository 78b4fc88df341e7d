// Package resourcequota replaces resourcequota-controller: it maintains the status of
// ResourceQuotas, which has the limits in force and the amounts used.
//
// Admission (package kelson.dev/kubernetes/plugins/resourcequota) counts new objects in the same
// write that creates them. This controller handles the rest, on the store's events: new quotas, new
// limits, and everything that releases resources, such as deletions and the end of pods. It
// computes the usage in one snapshot and writes the quota's status through the API, only if the
// quota still has the snapshot's revision. Every counted write also writes the quota, so the status
// is exact.
//
// Until the first quota exists, the controller follows only quotas.
package resourcequota

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/kubernetes/quota"
	"kelson.dev/operator/client"
)

// Config configures the controller. Store and Client are required.
type Config struct {
	Store *store.Store
	// Client writes the status of quotas.
	Client client.Client
	Log    *slog.Logger
}

// Controller maintains the resource quotas of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	if !c.wait(ctx) {
		return nil
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

// wait returns when a quota exists, and false if ctx ends or the store is closed before that.
func (c *Controller) wait(ctx context.Context) bool {
	exists, found := context.WithCancel(context.Background())
	defer found()
	subscription := c.cfg.Store.Subscribe([]string{quota.Resource}, func(sn *store.Snapshot) {
		if sn.Count(quota.Resource, "") > 0 {
			found()
		}
	}, func(*store.Event) { found() })
	defer subscription.End()
	select {
	case <-exists.Done():
		return true
	case <-subscription.Closed():
	case <-ctx.Done():
	}
	return false
}

// event adds the quotas whose status may be outdated after an event.
func (c *Controller) event(e *store.Event, add func(store.Key)) {
	if e.Object.Key.Resource == quota.Resource && e.Type != store.Deleted {
		if e.Type == store.Added || statusLags(e) {
			add(e.Object.Key)
		}
		return
	}
	if e.Object.Key.Resource == quota.DeviceClasses { // it can change what claims use
		for obj := range c.cfg.Store.Snapshot().Scan(quota.Resource, "", store.Key{}) {
			add(obj.Key)
		}
		return
	}
	if e.Object.Key.Namespace == "" || e.Type == store.Added {
		return
	}
	if e.Type == store.Modified {
		// If the object can't be decoded, assume that it releases something.
		if frees, err := quota.Frees(e.Prev, e.Object); err == nil && !frees {
			return
		}
	}
	for obj := range c.cfg.Store.Snapshot().Scan(quota.Resource, e.Object.Key.Namespace, store.Key{}) {
		add(obj.Key)
	}
}

// statusLags reports whether the limits in a quota's status differ from those in its spec, because
// a client wrote either of them.
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
		err = c.cfg.Client.Subresource("status").Update(ctx, q, nil)
		if err == nil {
			return 0, nil
		}
		if err = follow.IgnoreChanged(c.cfg.Store, sn.Get(key), err); err != nil || ctx.Err() != nil {
			return 0, fmt.Errorf("write quota: %w", err)
		}
		// Another counted write was first, or the quota was deleted.
	}
}
