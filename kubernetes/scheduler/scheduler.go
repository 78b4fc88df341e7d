// Package scheduler runs Kubernetes' own scheduler (k8s.io/kubernetes/pkg/scheduler) with all its
// plugins: resources, affinity, topology spread, taints, priority and preemption, scheduling gates,
// volume binding and dynamic resource allocation. A configuration file selects profiles, plugins
// and extender webhooks; see [Load].
//
//	s, err := scheduler.New(scheduler.Config{Store: st, REST: plane.RESTConfig(), Serves: serves})
//	err = s.Run(ctx) // blocks until ctx ends
//
// # When it runs
//
//	no node, or no waiting pod ──first waiting pod on a plane with nodes──▶ running
//	          ▲                                                                │
//	          └──────────── no waiting pod for IdleAfter ──────────────────────┘
//
// A pod waits if it has no node and names one of the scheduler's profiles in spec.schedulerName.
// Until then, and again when no pod waits, the package holds no informers and has no timers:
// upstream's scheduler wakes up three times a second even when it has nothing to do. Starting it
// takes milliseconds, and 0.08 ms more for each pod.
//
// # Concurrency
//
// Everything works in a testing/synctest bubble, except extenders, which are called over the
// network. Several schedulers can run in one process; they share upstream's metrics.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/cachesync"
	"kelson.dev/kubernetes/controllers/sharing"
	"kelson.dev/kubernetes/controllers/workloads"
)

// IdleAfter is how often a running scheduler checks whether a pod still waits. If none does, the
// scheduler stops. With very many pods, it is a hundred times as long as the start took.
const IdleAfter = 5 * time.Minute

// rarely bounds what repeated starts cost: a start that reads 150,000 pods takes 12 seconds.
const rarely = 100

// Config configures a Scheduler. Store and REST are required.
type Config struct {
	// Store reports when the scheduler is needed, and has the pods and nodes. The scheduler reads
	// other objects, and writes, through REST.
	Store *store.Store
	// Shared has the objects that the scheduler's caches share with others; nil means that they
	// share none.
	Shared *sharing.Caches
	REST   *rest.Config
	// Serves reports whether the API server serves a resource. The scheduler treats other resources
	// as if no object existed. nil means that all are served.
	Serves func(schema.GroupVersionResource) bool
	// Settings come from [Load]; nil means Kubernetes' defaults.
	Settings *Settings
	// Waits reports that the scheduler's caches do not fill; nil reports nothing.
	Waits *cachesync.Waits
	// Log receives all records at level Debug; nil discards them.
	Log *slog.Logger
}

// Scheduler binds pods to nodes.
type Scheduler struct {
	cfg   Config
	names map[string]bool // of the profiles
}

// New returns a scheduler; call Run to start it.
func New(cfg Config) (*Scheduler, error) {
	if cfg.Serves == nil {
		cfg.Serves = func(schema.GroupVersionResource) bool { return true }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Settings == nil {
		var err error
		if cfg.Settings, err = defaults(); err != nil {
			return nil, err
		}
	}
	if cfg.Shared == nil {
		cfg.Shared = sharing.New(cfg.Store)
	}
	s := &Scheduler{cfg: cfg, names: map[string]bool{}}
	for _, name := range cfg.Settings.Names() {
		s.names[name] = true
	}
	return s, nil
}

// Run schedules pods until ctx ends or the store is closed. It must be called at most once at a
// time.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(workloads.Debugging(s.cfg.Log.Handler())))
	for {
		if err := s.await(ctx, "nodes", func(*store.Object) bool { return true }); err != nil || ctx.Err() != nil {
			return err
		}
		if err := s.await(ctx, "pods", s.waits); err != nil || ctx.Err() != nil {
			return err
		}
		if err := s.schedule(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// await returns when an object of a resource exists for which needed returns true, or ctx ends. It
// returns an error if the store is closed.
func (s *Scheduler) await(ctx context.Context, resource string, needed func(*store.Object) bool) error {
	ctx, found := context.WithCancel(ctx)
	defer found()
	err := s.cfg.Store.Follow(ctx, resource, func(sn *store.Snapshot) {
		for obj := range sn.Scan(resource, "", store.Key{}) {
			if needed(obj) {
				found()
				return
			}
		}
	}, func(events []*store.Event) {
		for _, event := range events {
			if event.Type != store.Deleted && needed(event.Object) {
				found()
				return
			}
		}
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// waits reports whether a stored pod waits for this scheduler. It is called for each change of a
// pod, so it decodes only what it needs.
func (s *Scheduler) waits(obj *store.Object) bool {
	type pod struct {
		Spec struct {
			NodeName      string `json:"nodeName"`
			SchedulerName string `json:"schedulerName"`
		} `json:"spec"`
		Status struct {
			Phase corev1.PodPhase `json:"phase"`
		} `json:"status"`
	}
	p, err := derived.DecodeLean[pod](obj)
	return err == nil && p.Spec.NodeName == "" && s.names[p.Spec.SchedulerName] &&
		p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// schedule runs upstream's scheduler until no pod waits or ctx ends.
func (s *Scheduler) schedule(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	sched, informers, err := build(ctx, s.cfg)
	if err != nil {
		return fmt.Errorf("create scheduler: %w", err)
	}
	pods := informers.Core().V1().Pods().Lister()
	informers.Start(ctx.Done())
	defer informers.Shutdown()
	defer stop() // Shutdown waits for informers that run until ctx ends
	if !informers.wait(ctx, s.cfg.Waits) {
		return nil // ctx has ended
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { sched.Run(ctx) })
	check := time.NewTicker(max(IdleAfter, rarely*time.Since(began)))
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
		}
		// The informer may be behind the store. Run then finds the waiting pod and starts again.
		all, err := pods.List(labels.Everything())
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		if !s.anyWaits(all) {
			stop()
			return nil
		}
	}
}

func (s *Scheduler) anyWaits(pods []*corev1.Pod) bool {
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && s.names[pod.Spec.SchedulerName] {
			return true
		}
	}
	return false
}
