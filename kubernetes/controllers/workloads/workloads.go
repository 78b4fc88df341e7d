// Package workloads runs Kubernetes' own controllers:
//
//   - of workloads: replicationcontroller-controller, replicaset-controller, deployment-controller,
//     statefulset-controller, daemonset-controller, job-controller, cronjob-controller,
//     horizontal-pod-autoscaler-controller, endpoints-controller, endpointslice-controller and
//     endpointslice-mirroring-controller
//   - of volumes: persistentvolume-binder-controller and ephemeral-volume-controller
//   - of nodes: node-lifecycle-controller, node-ipam-controller and taint-eviction-controller
//   - of devices: resourceclaim-controller and device-taint-eviction-controller
//   - if their feature gates are on: resourcepoolstatusrequest-controller,
//     podgroup-protection-controller and kube-apiserver's coordinated leader election
//
// It replaces pod-garbage-collector-controller with its own.
//
// The controllers are ordinary clients of the API, whose requests pass through the whole pipeline.
// A group of controllers starts, and its informers with it, when the first object of one of its
// kinds exists, so an unused kind costs nothing. The groups share informers.
//
//	c := workloads.New(workloads.Config{Store: st, As: plane.RESTConfigAs})
//	err := c.Run(ctx) // blocks until ctx ends
package workloads

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/cachesync"
	"kelson.dev/kubernetes/controllers/sharing"
)

// Config configures the controllers. Store and As are required.
type Config struct {
	// Store reports when the controllers are needed. Some informers read from it, too.
	Store *store.Store
	// As returns the configuration of a client that acts as a user. Each controller writes as its
	// own service account, with the rights of Kubernetes' bootstrap roles, and the shared informers
	// read as kube-controller-manager.
	As func(user.Info) *rest.Config
	// Workers is how many objects each controller processes concurrently; 0 means 5, as in
	// Kubernetes.
	Workers int
	// Selected selects controllers by name; none means all.
	Selected Selection
	// PodRanges are the ranges of pod addresses, at most one per IP family, of which each node gets
	// a part as spec.podCIDRs. If empty, nodes get none.
	PodRanges []*net.IPNet
	// Shared has the objects that the informers share with other caches; nil means that they share
	// them only with each other.
	Shared *sharing.Caches
	// Waits reports controllers whose caches do not fill; nil reports none.
	Waits *cachesync.Waits
	// Log receives all records of the controllers at level Debug; nil discards them.
	Log *slog.Logger
}

// Controllers are the workload controllers of one control plane.
type Controllers struct{ cfg Config }

// New returns controllers; call Run to start them.
func New(cfg Config) *Controllers {
	if cfg.Workers == 0 {
		cfg.Workers = 5
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Shared == nil {
		cfg.Shared = sharing.New(cfg.Store)
	}
	return &Controllers{cfg}
}

// Run runs the controllers until ctx ends or the store is closed, and returns when everything that
// it started has ended.
func (c *Controllers) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(klog.NewContext(ctx, logr.FromSlogHandler(Debugging(c.cfg.Log.Handler()))))
	defer end(nil)
	shared := sync.OnceValues(func() (*informers, error) { return newInformers(c.cfg.As, c.cfg.Shared) })
	var parts sync.WaitGroup
	for _, g := range groups(&c.cfg) {
		parts.Go(func() {
			if err := c.run(ctx, g, shared); err != nil {
				end(err)
			}
		})
	}
	parts.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// run waits until the group is needed, and runs it until ctx ends.
func (c *Controllers) run(ctx context.Context, g group, shared func() (*informers, error)) error {
	if err := c.wait(ctx, g); err != nil || ctx.Err() != nil {
		return err
	}
	read, err := shared()
	if err != nil {
		return err
	}
	controllers, used, err := read.construct(ctx, g)
	if err != nil {
		return err
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	for _, informer := range read.unstarted() {
		parts.Go(func() { informer.RunWithContext(ctx) })
	}
	// The controllers wait for their informers, too, but check only ten times a second. If ctx has
	// ended, they must still run, because their queues end with Run.
	c.cfg.Waits.For(ctx, g.names(), used...)
	for _, controller := range controllers {
		parts.Go(func() { controller.Run(ctx, c.cfg.Workers) })
	}
	return nil
}

// wait returns when the group is needed or ctx has ended. It returns an error if the store is
// closed.
func (c *Controllers) wait(ctx context.Context, g group) error {
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	var watches sync.WaitGroup
	for _, kind := range g.kinds {
		watches.Go(func() {
			err := c.cfg.Store.Follow(waiting, kind, func(sn *store.Snapshot) {
				for obj := range sn.Scan(kind, "", store.Key{}) {
					if g.needs == nil || g.needs(obj) {
						end(nil)
						return
					}
				}
			}, func(events []*store.Event) {
				for _, event := range events {
					if event.Type != store.Deleted && (g.needs == nil || g.needs(event.Object)) {
						end(nil)
						return
					}
				}
			})
			end(err)
		})
	}
	watches.Wait()
	if err := context.Cause(waiting); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
