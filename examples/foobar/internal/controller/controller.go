// Package controller keeps Bars for Foos with the code that is generated for the two kinds: the
// clientset writes, listers read, informers trigger syncs.
//
//	Foos, Bars ─▶ informers ─▶ handlers ─▶ queue of keys (of Foos) ─▶ workers ─▶ sync
package controller

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/operator/workqueue"

	foobarv1 "kelson.dev/examples/foobar/api/v1"
	foobarv1apply "kelson.dev/examples/foobar/pkg/generated/applyconfiguration/foobar/v1"
	"kelson.dev/examples/foobar/pkg/generated/clientset/versioned"
	"kelson.dev/examples/foobar/pkg/generated/informers/externalversions"
	listers "kelson.dev/examples/foobar/pkg/generated/listers/foobar/v1"
)

// +kubebuilder:rbac:groups=foobar.demo.welcome.domain,resources=foos,verbs=get;list;watch
// +kubebuilder:rbac:groups=foobar.demo.welcome.domain,resources=foos/status,verbs=update
// +kubebuilder:rbac:groups=foobar.demo.welcome.domain,resources=bars,verbs=get;list;watch;create;patch;delete

// manager owns the fields of Bars that are applied.
const manager = "foobar"

// fooLabel is the label of a Bar with the name of its Foo.
const fooLabel = "foobar.demo.welcome.domain/foo"

type controller struct {
	clients versioned.Interface
	foos    listers.FooLister
	bars    listers.BarLister
	queue   *workqueue.Queue[cache.ObjectName, struct{}]
}

// Run keeps Bars until ctx ends, and returns when everything has stopped.
func Run(ctx context.Context, config *rest.Config, workers int) error {
	clients, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := externalversions.NewSharedInformerFactory(clients, 0)
	foos, bars := factory.Foobar().V1().Foos(), factory.Foobar().V1().Bars()
	c := &controller{
		clients: clients, foos: foos.Lister(), bars: bars.Lister(),
		queue: workqueue.New(workqueue.Config[cache.ObjectName, struct{}]{}),
	}
	if _, err := foos.Informer().AddEventHandler(each(c.enqueue)); err != nil {
		return err
	}
	if _, err := bars.Informer().AddEventHandler(each(c.enqueueOwner)); err != nil {
		return err
	}
	// The informers end after the workers, which read from them until they end.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	factory.StartWithContext(running)
	defer factory.Shutdown()
	defer stop()
	if err := factory.WaitForCacheSyncWithContext(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var working sync.WaitGroup
	for range workers {
		working.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	working.Wait()
	return nil
}

// each handles every change in the same way: the queue holds keys, and sync reads the current
// state.
func each(enqueue func(metav1.Object)) cache.ResourceEventHandler {
	handle := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(metav1.Object); ok {
			enqueue(o)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, obj any) {
		handle(obj)
	}, DeleteFunc: handle}
}

func (c *controller) enqueue(foo metav1.Object) { c.queue.Add(cache.MetaObjectToName(foo), struct{}{}) }

func (c *controller) enqueueOwner(bar metav1.Object) {
	if owner := metav1.GetControllerOf(bar); owner != nil && owner.Kind == "Foo" {
		c.queue.Add(cache.NewObjectName(bar.GetNamespace(), owner.Name), struct{}{})
	}
}

func (c *controller) work(ctx context.Context) {
	for {
		item, err := c.queue.Get(ctx)
		if err != nil {
			return
		}
		// a started sync is completed
		if err := c.sync(context.WithoutCancel(ctx), item.Key); err != nil {
			slog.Info("sync failed; retrying", "foo", item.Key.String(), "err", err)
			c.queue.AddRateLimited(item.Key, struct{}{})
		} else {
			c.queue.Forget(item.Key)
		}
		c.queue.Done(item)
	}
}

// sync creates, updates and deletes the Bars of a Foo. The listers may be out of date: applying an
// existing Bar changes nothing, and deleting a deleted one returns NotFound.
func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	foo, err := c.foos.Foos(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil // the garbage collector deletes its Bars, which it owns
	}
	if err != nil || !foo.DeletionTimestamp.IsZero() {
		return err
	}
	bars, err := c.bars.Bars(key.Namespace).List(labels.SelectorFromSet(labels.Set{fooLabel: foo.Name}))
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for i := range foo.Spec.Bars {
		name := fmt.Sprintf("%s-%d", foo.Name, i)
		wanted[name] = true
		if _, err := c.clients.FoobarV1().Bars(foo.Namespace).Apply(ctx, barOf(foo, name),
			metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			return err
		}
	}
	for _, bar := range bars {
		if wanted[bar.Name] || !metav1.IsControlledBy(bar, foo) {
			continue
		}
		if err := c.clients.FoobarV1().Bars(bar.Namespace).Delete(ctx, bar.Name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return err
		}
	}
	if foo.Status.Bars == foo.Spec.Bars && foo.Status.ObservedGeneration == foo.Generation {
		return nil
	}
	foo = foo.DeepCopy() // objects of listers are shared
	foo.Status = foobarv1.FooStatus{Bars: foo.Spec.Bars, ObservedGeneration: foo.Generation}
	_, err = c.clients.FoobarV1().Foos(foo.Namespace).UpdateStatus(ctx, foo,
		metav1.UpdateOptions{FieldManager: manager})
	return err
}

// barOf returns the Bar to apply.
func barOf(foo *foobarv1.Foo, name string) *foobarv1apply.BarApplyConfiguration {
	return foobarv1apply.Bar(name, foo.Namespace).
		WithLabels(map[string]string{fooLabel: foo.Name}).
		WithOwnerReferences(metav1apply.OwnerReference().
			WithAPIVersion(foobarv1.GroupVersion.String()).WithKind("Foo").WithName(foo.Name).WithUID(foo.UID).
			WithController(true)).
		WithSpec(foobarv1apply.BarSpec().WithMessage(foo.Spec.Message))
}
