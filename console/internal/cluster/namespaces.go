package cluster

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console/internal/web"
)

// maxNamespaces bounds the namespaces that are followed one by one, because each needs a watch of
// each kind.
const maxNamespaces = 20

// Namespaces returns the names of all namespaces, sorted. For users who may not list them, it
// returns those of the configuration, if there are any.
func (c *Cluster) Namespaces(ctx context.Context) ([]string, error) {
	var list metav1.PartialObjectMetadataList
	kind := Kind{Version: "v1", Resource: "namespaces"}
	err := c.Get(ctx, Request{Path: kind.Path("", ""),
		Accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"}, &list)
	if apierrors.IsForbidden(err) && len(c.namespaces) > 0 {
		return slices.Sorted(slices.Values(c.namespaces)), nil
	}
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names, nil
}

// The times after which FollowReadable retries a refused request: for all namespaces, and for a
// single one, of which there may be many.
const (
	retryReadable  = 3 * time.Second
	retryNamespace = time.Minute
)

// FollowReadable follows the objects of a kind until ctx ends: in all namespaces or, if the user
// may not list them, in each of those of the configuration, or of the first maxNamespaces that the
// user may list. to returns the receiver of a namespace, "" for all; receivers of different
// namespaces are called concurrently. Each time a request is refused, for all or for some of the
// namespaces, it calls refused with the error, and retries after a pause.
func (c *Cluster) FollowReadable(ctx context.Context, kind Kind, to func(namespace string) Receiver,
	refused func(error)) {
	for ctx.Err() == nil {
		err := c.Follow(ctx, Collection{Kind: kind}, to(""))
		if ctx.Err() != nil {
			return
		}
		if apierrors.IsForbidden(err) && kind.Namespaced {
			if all := c.readable(ctx); len(all) > 0 {
				c.followEach(ctx, kind, all, to, refused)
				return
			}
		}
		refused(err)
		pause(ctx, retryReadable)
	}
}

// readable returns the namespaces to follow one by one.
func (c *Cluster) readable(ctx context.Context) []string {
	if len(c.namespaces) > 0 {
		return c.namespaces
	}
	all, err := c.Namespaces(ctx)
	if err != nil {
		return nil
	}
	return all[:min(len(all), maxNamespaces)]
}

// followEach follows a kind in several namespaces until ctx ends. It calls refused when all of them
// were tried and some could not be read.
func (c *Cluster) followEach(ctx context.Context, kind Kind, namespaces []string, to func(string) Receiver,
	refused func(error)) {
	var mu sync.Mutex
	failed := map[string]error{} // nil: the namespace can be read
	note := func(namespace string, err error) {
		mu.Lock()
		defer mu.Unlock()
		old, known := failed[namespace]
		failed[namespace] = err
		if len(failed) < len(namespaces) || err != nil && known && old != nil {
			return // not all namespaces were tried, or the errors are the same as before
		}
		if err := refusals(failed); err != nil {
			refused(err)
		}
	}
	var all sync.WaitGroup
	for _, namespace := range namespaces {
		all.Go(func() {
			receiver := to(namespace)
			page := receiver.Page
			receiver.Page = func(list json.RawMessage, first, last bool) error {
				if last {
					defer note(namespace, nil)
				}
				return page(list, first, last)
			}
			for ctx.Err() == nil {
				err := c.Follow(ctx, Collection{Kind: kind, Namespace: namespace}, receiver)
				if ctx.Err() != nil {
					return
				}
				note(namespace, err)
				pause(ctx, retryNamespace)
			}
		})
	}
	all.Wait()
}

// refusals returns the errors of namespaces that can't be read, one for each reason.
func refusals(failed map[string]error) error {
	var names []string
	var first error
	for _, namespace := range slices.Sorted(maps.Keys(failed)) {
		if err := failed[namespace]; err != nil {
			names = append(names, namespace)
			if first == nil {
				first = err
			}
		}
	}
	switch len(names) {
	case 0:
		return nil
	case len(failed):
		return first
	}
	return web.Errorf(http.StatusForbidden, "not in namespaces %s: %v", strings.Join(names, ", "), first)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
