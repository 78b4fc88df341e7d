// Package workloads runs Kubernetes' own controllers of ReplicationControllers, ReplicaSets and Deployments on a control plane.
//
// They are clients of the API like any other: what they read and write passes through the whole pipeline. Nothing of them is
// started, and nothing is read, before the first object of one of these kinds exists; so a control plane that has none pays nothing.
//
//	c := workloads.New(workloads.Config{Store: st, REST: plane.RESTConfig()})
//	err := c.Run(ctx) // blocks until ctx ends
package workloads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	apps "k8s.io/client-go/informers/apps/v1"
	core "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"

	"kelson.dev/server/resource"
	"kelson.dev/server/store"
)

// Kinds are the resources whose first object starts the controllers, as in [store.Key].
func Kinds() []string {
	return []string{"deployments.apps", "replicasets.apps", "replicationcontrollers"}
}

// Config is what the controllers work on.
type Config struct {
	// Store tells when the controllers are needed; they read and write through REST.
	Store *store.Store
	REST  *rest.Config
	// Workers is how many objects of a kind are worked on at a time; 0 means 5, as in Kubernetes.
	Workers int
	// Log gets what the controllers say; nil discards it.
	Log *slog.Logger
}

// Controllers are the controllers of one control plane.
type Controllers struct{ cfg Config }

// New returns controllers; Run makes them work.
func New(cfg Config) *Controllers {
	if cfg.Workers == 0 {
		cfg.Workers = 5
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Controllers{cfg}
}

// Run works until ctx ends or the store is closed, and returns when everything it started has ended.
func (c *Controllers) Run(ctx context.Context) error {
	if err := c.wait(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(c.cfg.Log.Handler()))
	config := rest.CopyConfig(c.cfg.REST)
	config.ContentType, config.AcceptContentTypes = resource.MediaProtobuf, resource.MediaProtobuf+","+resource.MediaJSON
	config.UserAgent = "kelson-workloads"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	pods := of(core.NewPodInformer(client, "", 0, byNamespace), corelisters.NewPodLister)
	older := of(core.NewReplicationControllerInformer(client, "", 0, byNamespace), corelisters.NewReplicationControllerLister)
	sets := of(apps.NewReplicaSetInformer(client, "", 0, byNamespace), appslisters.NewReplicaSetLister)
	newer := of(apps.NewDeploymentInformer(client, "", 0, byNamespace), appslisters.NewDeploymentLister)
	deployments, err := deployment.NewDeploymentController(ctx, newer, sets, pods, client)
	if err != nil {
		return fmt.Errorf("make deployment controller: %w", err)
	}
	var parts sync.WaitGroup
	for _, run := range []func(context.Context, int){
		deployments.Run,
		replicaset.NewReplicaSetController(ctx, sets, pods, client, replicaset.BurstReplicas).Run,
		replication.NewReplicationManager(ctx, pods, older, client, replication.BurstReplicas).Run,
	} {
		parts.Go(func() { run(ctx, c.cfg.Workers) })
	}
	for _, shared := range []cache.SharedIndexInformer{pods.shared, older.shared, sets.shared, newer.shared} {
		parts.Go(func() { shared.RunWithContext(ctx) })
	}
	parts.Wait()
	return nil
}

// informer is an informer as the controllers take it. A factory would do, too, but brings the informers of all kinds into the binary.
type informer[L any] struct {
	shared cache.SharedIndexInformer
	lister L
}

func of[L any](shared cache.SharedIndexInformer, lister func(cache.Indexer) L) informer[L] {
	return informer[L]{shared, lister(shared.GetIndexer())}
}

func (i informer[L]) Informer() cache.SharedIndexInformer { return i.shared }
func (i informer[L]) Lister() L                           { return i.lister }

// wait returns when an object of Kinds exists, ctx ends, or the store is closed, which is an error.
func (c *Controllers) wait(ctx context.Context) error {
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	var watches sync.WaitGroup
	for _, kind := range Kinds() {
		watches.Go(func() {
			err := c.cfg.Store.Follow(waiting, kind, func(sn *store.Snapshot) {
				for range sn.Scan(kind, "", store.Key{}) {
					end(nil)
					return
				}
			}, func([]*store.Event) { end(nil) })
			end(err)
		})
	}
	watches.Wait()
	if err := context.Cause(waiting); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
