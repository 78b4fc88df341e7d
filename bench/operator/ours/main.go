// Command ours does the tasks of the operator benchmarks with kelson.dev/operator. See
// bench/operator.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"kelson.dev/bench/operator/sample"
	"kelson.dev/internal/footprint"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/workqueue"
)

var (
	kubeconfig = flag.String("server", "", "kubeconfig of the server")
	task       = flag.String("task", "", "samples, pods, handlers, queue, reconcile or idle")
	compact    = flag.Bool("compact", false, "keep objects encoded")
	profile    = flag.String("profile", "", "prefix of the names of files for profiles: .cpu, .allocs and .heap")
	count      = flag.Int("count", 0, "objects or events of the task")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if *profile != "" {
		defer profiles()()
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ours:", *task+":", err)
		os.Exit(1)
	}
}

// profiles starts profiling; the returned function writes the profiles.
func profiles() func() {
	runtime.MemProfileRate = 16 << 10
	f, err := os.Create(*profile + ".cpu")
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ours:", err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
		for _, name := range []string{"allocs", "heap"} {
			if f, err := os.Create(*profile + "." + name); err == nil {
				_ = pprof.Lookup(name).WriteTo(f, 0)
				_ = f.Close()
			}
		}
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
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(sample.Kind)
		return hold(ctx, cfg, obj)
	case "pods":
		return hold(ctx, cfg, &corev1.Pod{})
	case "handlers":
		return handlers(ctx, cfg)
	case "reconcile", "idle":
		return reconcile(ctx, cfg)
	}
	return fmt.Errorf("unknown task")
}

func informers(cfg *rest.Config) (informer.Informers, error) {
	c, err := client.New(client.Config{REST: cfg})
	if err != nil {
		return nil, err
	}
	form := informer.Full
	if *compact {
		form = informer.Compact
	}
	return informer.New(informer.Config{Client: c, Form: form})
}

// hold runs an informer of a kind and measures its memory.
func hold(ctx context.Context, cfg *rest.Config, obj client.Object) error {
	set, err := informers(cfg)
	if err != nil {
		return err
	}
	before := sample.Heap()
	begin := time.Now()
	if _, err := set.For(obj); err != nil {
		return err
	}
	go func() { _ = set.Run(ctx) }()
	if err := set.WaitForSync(ctx); err != nil {
		return err
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

func (h *handler) OnAdd(client.Object, bool)    {}
func (h *handler) OnDelete(client.Object, bool) {}
func (h *handler) OnUpdate(_, after client.Object) {
	var n int
	if _, err := fmt.Sscan(after.(*corev1.ConfigMap).Data["n"], &n); err != nil {
		panic(err)
	}
	if n != h.last[after.GetName()]+1 {
		h.lost.Add(1)
	}
	h.last[after.GetName()] = n
	if h.left.Add(-1) == 0 {
		close(h.done)
	}
}

func handlers(ctx context.Context, cfg *rest.Config) error {
	set, err := informers(cfg)
	if err != nil {
		return err
	}
	i, err := set.For(&corev1.ConfigMap{})
	if err != nil {
		return err
	}
	go func() { _ = set.Run(ctx) }()
	var left, lost atomic.Int64
	left.Store(int64(handlerCount * *count))
	done := make(chan struct{})
	for range handlerCount {
		reg, err := i.AddHandler(&handler{&left, map[string]int{}, &lost, done})
		if err != nil {
			return err
		}
		<-reg.Synced()
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
	client operator.Client
	count  *atomic.Int64
}

func (r *reconciler) Reconcile(ctx context.Context, s *sample.Sample) (operator.Result, error) {
	r.count.Add(1)
	child, err := operator.Apply(ctx, r.client, sample.NewChild(s))
	if err != nil {
		return operator.Result{}, err
	}
	s.Status = sample.Status{Child: child.Name, Ready: true}
	return operator.Result{}, nil
}

func reconcile(ctx context.Context, cfg *rest.Config) error {
	var count, conflicts atomic.Int64
	cfg.Wrap(sample.CountConflicts(&conflicts))
	options := []operator.Option{operator.Owns[corev1.ConfigMap](), operator.Concurrency(16)}
	if *task == "idle" {
		options = append(options, operator.Owns[corev1.Secret]())
		// This program calls Run, because Main would parse its flags. Otherwise it works as with
		// Main.
		release := time.AfterFunc(5*time.Second, func() { footprint.Release(8 << 20) })
		defer release.Stop()
	}
	err := operator.Run(ctx, operator.Config{REST: cfg, MetricsAddress: "127.0.0.1:0"},
		operator.AddToScheme(sample.AddToScheme), operator.Name("ours"),
		operator.For(func(c operator.Client) *reconciler { return &reconciler{c, &count} }, options...))
	sample.Figures{Reconciles: float64(count.Load()), Conflicts: float64(conflicts.Load())}.Print()
	return err
}

// queue measures workers that add and process keys, with priorities.
func queue() error {
	f := sample.Figures{Rate: map[string]float64{}}
	for _, workers := range []int{1, 16} {
		q := workqueue.New(workqueue.Config[string, struct{}]{})
		f.Rate[fmt.Sprint("kelson ", workers)] = sample.QueueRate(workers, func(key string, priority int) {
			q.AddWith(key, struct{}{}, workqueue.Options{Priority: priority})
		}, func() bool {
			item, err := q.Get(context.Background())
			q.Done(item)
			return err == nil
		})
		q.ShutDown()
	}
	f.Print()
	return nil
}
