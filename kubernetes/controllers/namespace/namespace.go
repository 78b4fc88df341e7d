// Package namespace replaces namespace-controller: it deletes the contents of namespaces that are
// being deleted, and then finalizes the namespaces.
//
// A deleted namespace gets the phase Terminating and keeps the finalizer "kubernetes" in its spec.
// The controller deletes all objects in it, waits for those that need time (pods that stop, objects
// with finalizers), and removes the finalizer when none are left. It is driven by the store's
// events and reads the store's index by namespace: no discovery, no polling.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/operator/client"
	"kelson.dev/operator/workqueue"
)

const namespaces = "namespaces"

// Config configures the controller. All fields except Log are required.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	Objects  resource.Objects
	// Client writes the status and the finalizers of namespaces.
	Client client.Client
	Log    *slog.Logger
}

// Controller is the namespace controller of one control plane.
type Controller struct {
	cfg   Config
	queue *workqueue.Queue[string, struct{}]
}

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Controller{cfg: cfg}
}

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = workqueue.New(workqueue.Config[string, struct{}]{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.work(ctx)
	}()
	defer func() {
		c.queue.ShutDown()
		<-done
	}()
	err := c.cfg.Store.Follow(ctx, "", func(sn *store.Snapshot) {
		for ns := range sn.Scan(namespaces, "", store.Key{}) {
			c.consider(ns)
		}
	}, c.follow)
	if errors.Is(err, store.ErrClosed) {
		return nil
	}
	return err
}

// follow queues namespaces that are being deleted, and those from which an object was deleted.
func (c *Controller) follow(events []*store.Event) {
	sn := c.cfg.Store.Snapshot()
	for _, e := range events {
		switch {
		case e.Object.Key.Resource == namespaces:
			c.consider(e.Object)
		case e.Object.Key.Namespace != "" && e.Type == store.Deleted:
			if ns := sn.Get(store.Key{Resource: namespaces, Name: e.Object.Key.Namespace}); ns != nil {
				c.consider(ns)
			}
		}
	}
}

func (c *Controller) consider(ns *store.Object) {
	if !ns.Head.DeletionTimestamp.IsZero() {
		c.queue.Add(ns.Key.Name, struct{}{})
	}
}

func (c *Controller) work(ctx context.Context) {
	ctx = request.WithUser(ctx, &user.DefaultInfo{
		Name:   "system:serviceaccount:kube-system:namespace-controller",
		Groups: []string{user.SystemPrivilegedGroup, "system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
	})
	for {
		next, err := c.queue.Get(ctx)
		if err != nil {
			return // shut down
		}
		name := next.Key
		if err := c.empty(ctx, name); err != nil && ctx.Err() == nil {
			if !apierrors.IsConflict(err) {
				c.cfg.Log.Warn("empty namespace", "namespace", name, "err", err)
			}
			c.queue.AddRateLimited(name, struct{}{})
		} else {
			c.queue.Forget(name)
		}
		c.queue.Done(next)
	}
}

// empty deletes the objects in a terminating namespace, and finalizes the namespace when none are
// left.
func (c *Controller) empty(ctx context.Context, name string) error {
	key := store.Key{Resource: namespaces, Name: name}
	sn := c.cfg.Store.Snapshot()
	if ns := sn.Get(key); ns == nil || ns.Head.DeletionTimestamp.IsZero() {
		return nil
	}
	background := metav1.DeletePropagationBackground
	var failed []error
	for obj := range sn.InNamespace(name) {
		if !obj.Head.DeletionTimestamp.IsZero() {
			continue
		}
		res, ok := c.cfg.Registry.Current().ByPrefix(obj.Key.Resource)
		if !ok {
			failed = append(failed, fmt.Errorf("delete %s %s: its kind is not served", obj.Key.Resource, obj.Key.Name))
			continue
		}
		_, err := c.cfg.Objects.Delete(ctx, res, name, obj.Key.Name, &metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &obj.Head.UID},
			PropagationPolicy: &background,
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = append(failed, fmt.Errorf("delete %s %s: %w", obj.Key.Resource, obj.Key.Name, err))
		}
	}

	left := map[string]int{}
	finalizers := map[string]int{}
	for obj := range c.cfg.Store.Snapshot().InNamespace(name) {
		left[obj.Key.Resource]++
		for _, f := range obj.Head.Finalizers {
			finalizers[f]++
		}
	}
	ns := &corev1.Namespace{}
	if err := c.cfg.Client.Get(ctx, client.Key{Name: name}, ns); err != nil {
		return client.IgnoreNotFound(err)
	}
	if setConditions(ns, left, finalizers, failed) {
		if err := c.cfg.Client.Subresource("status").Update(ctx, ns, nil); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if err := errors.Join(failed...); err != nil || len(left) > 0 {
		return err // the event of the last deletion queues the namespace again
	}
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	return client.IgnoreNotFound(c.cfg.Client.Subresource("finalize").Update(ctx, ns, nil))
}

// setConditions sets the conditions that say what keeps the namespace from being deleted, with the
// reasons and messages of Kubernetes' namespace controller. It reports whether anything changed.
func setConditions(ns *corev1.Namespace, left, finalizers map[string]int, failed []error) bool {
	changed := false
	set := func(kind corev1.NamespaceConditionType, bad bool, badReason, goodReason, badMessage, goodMessage string) {
		want := corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: goodReason, Message: goodMessage}
		if bad {
			want.Status, want.Reason, want.Message = corev1.ConditionTrue, badReason, badMessage
		}
		i := slices.IndexFunc(ns.Status.Conditions, func(have corev1.NamespaceCondition) bool { return have.Type == kind })
		if i < 0 {
			if !bad && kind != corev1.NamespaceDeletionContentFailure {
				return // there is no condition to reset
			}
			want.LastTransitionTime = metav1.NewTime(time.Now())
			ns.Status.Conditions = append(ns.Status.Conditions, want)
			changed = true
			return
		}
		have := &ns.Status.Conditions[i]
		if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
			return
		}
		want.LastTransitionTime = have.LastTransitionTime
		if have.Status != want.Status {
			want.LastTransitionTime = metav1.NewTime(time.Now())
		}
		*have, changed = want, true
	}
	message := ""
	if err := errors.Join(failed...); err != nil {
		message = "Failed to delete all resource types, " + fmt.Sprintf("%d remaining: ", len(failed)) + err.Error()
	}
	set(corev1.NamespaceDeletionContentFailure, len(failed) > 0, "ContentDeletionFailed", "ContentDeleted",
		message, "All content successfully deleted, may be waiting on finalization")
	set(corev1.NamespaceContentRemaining, len(left) > 0, "SomeResourcesRemain", "ContentRemoved",
		"Some resources are remaining: "+counted(left, "%s has %d resource instances"), "All content successfully removed")
	set(corev1.NamespaceFinalizersRemaining, len(finalizers) > 0, "SomeFinalizersRemain", "ContentHasNoFinalizers",
		"Some content in the namespace has finalizers remaining: "+counted(finalizers, "%s in %d resource instances"), "All content-preserving finalizers finished")
	return changed
}

func counted(counts map[string]int, format string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf(format, name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
