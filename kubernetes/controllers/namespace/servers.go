package namespace

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/kubernetes/controllers/aggregated"
)

// content describes the objects that keep a namespace from being finalized.
type content struct {
	undiscovered error          // the resources of some servers are not known
	failed       []error        // deletions
	left         map[string]int // objects, by resource and group
	finalizers   map[string]int // objects, by finalizer
}

// empty reports whether the namespace can be finalized.
func (c *content) empty() bool {
	return c.undiscovered == nil && len(c.failed) == 0 && len(c.left) == 0
}

// remaining is how long to wait for objects with finalizers in other servers, whose events the
// controller does not see. It is the interval of Kubernetes' namespace controller.
const remaining = 8 * time.Second

// emptyServers deletes the objects in a namespace that other API servers hold. It reports whether
// objects with finalizers are left.
func (c *Controller) emptyServers(ctx context.Context, name string, found *content) (wait bool) {
	kinds, err := c.cfg.Servers.Kinds()
	found.undiscovered = err
	for i := range kinds {
		kind := &kinds[i]
		if !kind.Namespaced || !kind.Supports("delete") {
			continue
		}
		items, err := c.deleteAll(ctx, kind, name)
		if err != nil {
			found.failed = append(found.failed, err)
			continue
		}
		held := false
		for i := range items {
			for _, finalizer := range items[i].Finalizers {
				found.finalizers[finalizer]++
				held = true
			}
		}
		if len(items) == 0 {
			continue
		}
		found.left[kind.Resource+"."+kind.Group] += len(items)
		if wait = true; !held {
			found.failed = append(found.failed, fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v",
				name, kind.GroupVersionResource))
		}
	}
	return wait
}

// deleteAll deletes the objects of a kind in a namespace and returns those that still exist.
func (c *Controller) deleteAll(ctx context.Context, kind *aggregated.Kind,
	namespace string) ([]metav1.PartialObjectMetadata, error) {
	client, err := c.cfg.Servers.Client(kind.GroupVersionResource, namespace)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, aggregated.Timeout)
	defer cancel()
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	collection := kind.Supports("deletecollection")
	if collection {
		switch err := client.DeleteCollection(ctx, options, metav1.ListOptions{}); {
		case unsupported(err):
			collection = false
		case err != nil:
			return nil, err
		}
	}
	if !kind.Supports("list") {
		return nil, nil
	}
	list, err := client.List(ctx, metav1.ListOptions{})
	if unsupported(err) {
		return nil, nil
	}
	if err != nil || collection || len(list.Items) == 0 {
		return items(list), err
	}
	for i := range list.Items {
		if err := client.Delete(ctx, list.Items[i].Name, options); err != nil && !unsupported(err) {
			return nil, err
		}
	}
	list, err = client.List(ctx, metav1.ListOptions{})
	return items(list), err
}

func items(list *metav1.PartialObjectMetadataList) []metav1.PartialObjectMetadata {
	if list == nil {
		return nil
	}
	return list.Items
}

// unsupported reports whether a server does not have a verb, although it lists it.
func unsupported(err error) bool {
	return apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)
}
