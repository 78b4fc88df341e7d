// Command theirs does the tasks of the operator benchmarks with client-go and controller-runtime.
// See bench/operator.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	k8sinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kelson.dev/bench/operator/sample"
)

var (
	kubeconfig = flag.String("server", "", "kubeconfig of the server")
	task       = flag.String("task", "", "samples, pods, handlers, queue, reconcile or idle")
	count      = flag.Int("count", 0, "objects or events of the task")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard())
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "theirs:", *task+":", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if *task == "queue" {
		return queue()
	}
	cfg, err := sample.Config(*kubeconfig)
	if err != nil {
		return err
	}
	switch *task {
	case "samples":
		c, err := dynamic.NewForConfig(cfg)
		if err != nil {
			return err
		}
		return hold(ctx, func() cache.SharedIndexInformer {
			return dynamicinformer.NewDynamicSharedInformerFactory(c, 0).ForResource(sample.Resource).Informer()
		})
	case "pods":
		c, err := kubernetes.NewForConfig(asProtobuf(cfg))
		if err != nil {
			return err
		}
		return hold(ctx, func() cache.SharedIndexInformer {
			return k8sinformers.NewSharedInformerFactory(c, 0).Core().V1().Pods().Informer()
		})
	case "handlers":
		return handlers(ctx, cfg)
	case "reconcile", "idle":
		return reconcile(ctx, cfg)
	}
	return fmt.Errorf("unknown task")
}

func asProtobuf(cfg *rest.Config) *rest.Config {
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return cfg
}

// hold runs an informer of a kind and measures its memory.
func hold(ctx context.Context, make func() cache.SharedIndexInformer) error {
	before := sample.Heap()
	begin := time.Now()
	i := make()
	go i.Run(ctx.Done())
	if !cache.WaitFor(ctx, "", i.HasSyncedChecker()) {
		return ctx.Err()
	}
	f := sample.Figures{Seconds: time.Since(begin).Seconds()}
	f.Heap = (sample.Heap() - before) / float64(*count)
	f.Print()
	return nil
}

const handlerCount = 100

// handler counts events and checks their order.
type handler struct {
	left *atomic.Int64
	last map[string]int
	lost *atomic.Int64
	done chan struct{}
}

func (h *handler) OnAdd(any, bool) {}
func (h *handler) OnDelete(any)    {}
func (h *handler) OnUpdate(_, after any) {
	cm := after.(*corev1.ConfigMap)
	var n int
	if _, err := fmt.Sscan(cm.Data["n"], &n); err != nil {
		panic(err)
	}
	if n != h.last[cm.Name]+1 {
		h.lost.Add(1)
	}
	h.last[cm.Name] = n
	if h.left.Add(-1) == 0 {
		close(h.done)
	}
}

func handlers(ctx context.Context, cfg *rest.Config) error {
	c, err := kubernetes.NewForConfig(asProtobuf(cfg))
	if err != nil {
		return err
	}
	i := k8sinformers.NewSharedInformerFactory(c, 0).Core().V1().ConfigMaps().Informer()
	go i.Run(ctx.Done())
	var left, lost atomic.Int64
	left.Store(int64(handlerCount * *count))
	done := make(chan struct{})
	for range handlerCount {
		reg, err := i.AddEventHandler(&handler{&left, map[string]int{}, &lost, done})
		if err != nil {
			return err
		}
		cache.WaitForCacheSync(ctx.Done(), reg.HasSynced)
	}
	sample.Ready()
	begin := time.Now()
	select {
	case <-done:
	case <-time.After(time.Minute):
	case <-ctx.Done():
	}
	sample.Figures{Seconds: time.Since(begin).Seconds(), Lost: float64(lost.Load() + left.Load())}.Print()
	return nil
}

type reconciler struct {
	client client.Client
	count  *atomic.Int64
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.count.Add(1)
	s := &sample.Sample{}
	if err := r.client.Get(ctx, req.NamespacedName, s); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	want := sample.NewChild(s)
	child := &corev1.ConfigMap{}
	child.Namespace, child.Name = want.Namespace, want.Name
	_, err := controllerutil.CreateOrUpdate(ctx, r.client, child, func() error {
		child.Labels, child.Data = want.Labels, want.Data
		return controllerutil.SetControllerReference(s, child, r.client.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	status := sample.Status{Child: child.Name, Ready: true}
	if s.Status == status {
		return ctrl.Result{}, nil
	}
	s.Status = status
	return ctrl.Result{}, r.client.Status().Update(ctx, s)
}

func reconcile(ctx context.Context, cfg *rest.Config) error {
	var count, conflicts atomic.Int64
	cfg.Wrap(sample.CountConflicts(&conflicts))
	utilruntime.Must(sample.AddToScheme(scheme.Scheme))
	m, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme.Scheme,
		Metrics: server.Options{BindAddress: "127.0.0.1:0"}})
	if err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(m).For(&sample.Sample{}).Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 16})
	if *task == "idle" {
		b = b.Owns(&corev1.Secret{})
	}
	if err := b.Complete(&reconciler{m.GetClient(), &count}); err != nil {
		return err
	}
	err = m.Start(ctx)
	sample.Figures{Reconciles: float64(count.Load()), Conflicts: float64(conflicts.Load())}.Print()
	return err
}

// queue measures workers that add and process keys: with client-go's queue, which has no
// priorities, and controller-runtime's.
func queue() error {
	f := sample.Figures{Rate: map[string]float64{}}
	for _, workers := range []int{1, 16} {
		typed := workqueue.NewTyped[string]()
		f.Rate[fmt.Sprint("client-go ", workers)] = sample.QueueRate(workers, func(key string, _ int) {
			typed.Add(key)
		}, func() bool {
			item, shut := typed.Get()
			typed.Done(item)
			return !shut
		})
		typed.ShutDown()
		prioritized := priorityqueue.New[string]("bench")
		f.Rate[fmt.Sprint("controller-runtime ", workers)] = sample.QueueRate(workers, func(key string, priority int) {
			prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, key)
		}, func() bool {
			item, _, shut := prioritized.GetWithPriority()
			prioritized.Done(item)
			return !shut
		})
		prioritized.ShutDown()
	}
	f.Print()
	return nil
}
