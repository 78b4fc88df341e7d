// Package controller keeps an Ingress for each Service that requests one. It uses only informers
// and a work queue, to show what a framework does for an operator.
//
//	Services  ─▶ informer ─▶ handler ─┐
//	                                  ├─▶ queue of keys ─▶ workers ─▶ sync: desired and actual Ingress
//	Ingresses ─▶ informer ─▶ handler ─┘    (of Services)
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/workqueue"
)

// Annotation on a Service requests an Ingress. Its value is the host of the Ingress; "true" or an
// empty value means all hosts.
const Annotation = "ingress/http"

// maxRetries is the maximum number of retries of a failed Service. After that, the Service waits
// for its next change.
const maxRetries = 10

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;update;delete

type controller struct {
	client client.Client // reads from the informers, writes to the server
	queue  *workqueue.Queue[client.Key, struct{}]
	log    *slog.Logger
}

// Run keeps Ingresses until ctx ends, and returns when everything has stopped.
func Run(ctx context.Context, config *rest.Config, workers int) error {
	server, err := client.New(client.Config{REST: config, FieldOwner: "ingress-manager"})
	if err != nil {
		return err
	}
	informers, err := informer.New(informer.Config{Client: server})
	if err != nil {
		return err
	}
	c := &controller{
		client: informers.Client(), log: slog.Default(),
		queue: workqueue.New(workqueue.Config[client.Key, struct{}]{}),
	}
	services, err := c.follow(informers, &corev1.Service{}, func(obj client.Object) { c.enqueue(client.KeyOf(obj)) })
	if err != nil {
		return err
	}
	ingresses, err := c.follow(informers, &networkingv1.Ingress{}, c.enqueueOwner)
	if err != nil {
		return err
	}

	// The informers end after the workers, which read from them until they end.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	failed := make(chan error, 1)
	ended.Go(func() { failed <- informers.Run(running); cancel() })

	for _, synced := range []<-chan struct{}{services, ingresses} {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	c.log.Info("caches are synced")
	var working sync.WaitGroup
	for range workers {
		working.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	working.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// follow calls enqueue for every change of a kind. It closes the channel after it has enqueued all
// existing objects.
func (c *controller) follow(informers informer.Informers, kind client.Object,
	enqueue func(client.Object)) (<-chan struct{}, error) {
	inf, err := informers.For(kind)
	if err != nil {
		return nil, err
	}
	registration, err := inf.AddHandler(handler(enqueue))
	if err != nil {
		return nil, err
	}
	return registration.Synced(), nil
}

// handler handles every change in the same way: the queue holds keys, and sync reads the current
// state.
type handler func(client.Object)

func (h handler) OnAdd(obj client.Object, _ bool)    { h(obj) }
func (h handler) OnUpdate(_, obj client.Object)      { h(obj) }
func (h handler) OnDelete(obj client.Object, _ bool) { h(obj) }

func (c *controller) enqueue(key client.Key) { c.queue.Add(key, struct{}{}) }

// enqueueOwner enqueues the Service to which an Ingress belongs.
func (c *controller) enqueueOwner(ingress client.Object) {
	if owner := metav1.GetControllerOf(ingress); owner != nil && owner.Kind == "Service" && owner.APIVersion == "v1" {
		c.enqueue(client.Key{Namespace: ingress.GetNamespace(), Name: owner.Name})
	}
}

// work takes keys from the queue until it is shut down. Only one worker at a time has a key.
func (c *controller) work(ctx context.Context) {
	for {
		item, err := c.queue.Get(ctx)
		if err != nil {
			return
		}
		// a started sync is completed
		c.retry(item.Key, c.sync(context.WithoutCancel(ctx), item.Key))
		c.queue.Done(item)
	}
}

// retry enqueues a failed key with backoff, up to maxRetries times.
func (c *controller) retry(key client.Key, err error) {
	switch {
	case err == nil:
		c.queue.Forget(key)
	case c.queue.NumRequeues(key) < maxRetries:
		c.log.Info("sync failed; retrying", "service", key.String(), "err", err)
		c.queue.AddRateLimited(key, struct{}{})
	default:
		c.log.Error("sync failed; waiting for the next change", "service", key.String(), "err", err)
		c.queue.Forget(key)
	}
}

// errForeign means that an Ingress of that name was not created by this program.
var errForeign = errors.New("an Ingress of that name exists and has another owner")

// sync brings the Ingress of a Service into the desired state.
func (c *controller) sync(ctx context.Context, key client.Key) error {
	service, err := client.Get[corev1.Service](ctx, c.client, key)
	if apierrors.IsNotFound(err) {
		return nil // the garbage collector deletes the Ingress, which it owns
	}
	if err != nil {
		return err
	}
	host, wanted := service.Annotations[Annotation]
	wanted = wanted && service.DeletionTimestamp.IsZero()
	ingress, err := client.Get[networkingv1.Ingress](ctx, c.client, key)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	exists := err == nil
	if exists && !metav1.IsControlledBy(ingress, service) {
		if wanted {
			return fmt.Errorf("%w: %s", errForeign, key)
		}
		return nil
	}
	err = nil
	switch spec := specFor(service, host); {
	case wanted && !exists:
		err = c.client.Create(ctx, &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(service,
				corev1.SchemeGroupVersion.WithKind("Service"))},
		}, Spec: spec})
		c.logWrite("created", key, err)
	case wanted && !same(ingress.Spec, spec):
		ingress.Spec.Rules = spec.Rules
		err = c.client.Update(ctx, ingress)
		c.logWrite("updated", key, err)
	case !wanted && exists:
		err = client.IgnoreNotFound(c.client.Delete(ctx, ingress))
		c.logWrite("deleted", key, err)
	}
	return err
}

// logWrite logs a successful write; sync returns the error of a failed one.
func (c *controller) logWrite(what string, key client.Key, err error) {
	if err == nil {
		c.log.Info("ingress "+what, "ingress", key.String())
	}
}
