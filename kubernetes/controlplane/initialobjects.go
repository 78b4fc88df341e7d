package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
)

// restoreAfter is the delay between the deletion of an initial object and its restoration.
// kube-apiserver checks the Service and the ServiceCIDR every 10 s and the namespaces every minute.
const restoreAfter = 10 * time.Second

// restoresObjects reports whether a control plane maintains the objects that kube-apiserver itself
// maintains. One without controllers does only if it is a server of the Service "kubernetes". The
// others, such as one that serves a past state, write nothing on their own.
func restoresObjects(cfg Config) bool { return cfg.controls() || cfg.Endpoints.Address.IsValid() }

// keepInitialObjects creates the objects of bootstrap and the ConfigMap of trusted authorities
// again after clients deleted them, until ctx ends. It uses no goroutine while all of them exist.
func (p *ControlPlane) keepInitialObjects(ctx context.Context, parts *parts, cfg Config) {
	var pending atomic.Bool
	var restore func()
	restore = func() {
		if pending.Swap(true) {
			return
		}
		parts.run(ctx, "initial objects", func(ctx context.Context) error {
			select {
			case <-time.After(restoreAfter):
			case <-ctx.Done():
				return ctx.Err()
			}
			// before the snapshot, so that a later deletion starts the next run
			pending.Store(false)
			// The log would only repeat what bootstrap logged at the start.
			err := bootstrap(ctx, p.store.Snapshot(), p.registry.Current(), p.serverTransport(), cfg.ServiceRange,
				slog.New(slog.DiscardHandler))
			err = errors.Join(err, p.publishTrust(ctx, cfg.RootCA))
			if err != nil && ctx.Err() == nil {
				p.log.Warn("restore initial objects: trying again later", "err", err)
				restore()
			}
			return nil
		})
	}
	trust := store.Key{Resource: "configmaps", Namespace: metav1.NamespaceSystem, Name: trustName}
	resources := []string{trust.Resource}
	for key := range initialObjects {
		if !slices.Contains(resources, key.Resource) {
			resources = append(resources, key.Resource)
		}
	}
	parts.Add(1) // until the subscription has ended, because it can start goroutines
	subscription := p.store.Subscribe(resources, func(sn *store.Snapshot) {
		for key := range initialObjects {
			if lacks(sn, p.registry.Current(), key) {
				restore()
			}
		}
	}, func(e *store.Event) {
		if e.Type != store.Deleted {
			return
		}
		if _, initial := initialObjects[e.Object.Key]; initial || e.Object.Key == trust {
			restore()
		}
	})
	context.AfterFunc(ctx, func() {
		defer parts.Done()
		subscription.End()
	})
}
