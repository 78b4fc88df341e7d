package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Cluster provides the parameters of kinds that the server itself does not serve.
type Cluster struct {
	Client dynamic.Interface
	// Kinds finds the resource of a kind. Its requests should have a timeout, because requests to
	// this server wait for them.
	Kinds discovery.ServerResourcesInterface
}

// remote reads the parameters of one source's policies from a cluster. It keeps an informer for
// each kind that a policy uses. It is safe for concurrent use.
type remote struct {
	cluster Cluster

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*remoteKind
	ended bool
}

type remoteKind struct {
	informer informers.GenericInformer
	mapping  *meta.DefaultRESTMapper // contains only this kind
	scope    meta.RESTScope
	stop     context.CancelFunc
}

// errEnded is the error of policies that are evaluated while the server stops.
var errEnded = errors.New("the server is stopping")

// kind returns access to the objects of a kind, and starts its informer if it has none. The
// evaluation of policies waits until the informer has the objects.
func (r *remote) kind(gvk schema.GroupVersionKind) (*remoteKind, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, errEnded
	}
	if k := r.kinds[gvk]; k != nil {
		return k, nil
	}
	name, scope, err := r.find(gvk)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	gvr := gvk.GroupVersion().WithResource(name)
	k := &remoteKind{
		informer: dynamicinformer.NewFilteredDynamicInformer(r.cluster.Client, gvr, metav1.NamespaceAll, 0, byNamespace,
			nil),
		mapping: meta.NewDefaultRESTMapper(nil), scope: scope, stop: cancel,
	}
	k.mapping.AddSpecific(gvk, gvr, gvr, scope)
	go k.informer.Informer().RunWithContext(ctx)
	r.kinds[gvk] = k
	return k, nil
}

// find returns the resource of a kind. The wording of the error is that of Kubernetes.
func (r *remote) find(gvk schema.GroupVersionKind) (string, meta.RESTScope, error) {
	list, err := r.cluster.Kinds.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return "", nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v': %w", gvk, err)
	}
	if list != nil {
		for _, res := range list.APIResources {
			if res.Kind != gvk.Kind || strings.Contains(res.Name, "/") {
				continue
			}
			if res.Namespaced {
				return res.Name, meta.RESTScopeNamespace, nil
			}
			return res.Name, meta.RESTScopeRoot, nil
		}
	}
	return "", nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
}

// keep ends the informers of all other kinds.
func (r *remote) keep(used map[schema.GroupVersionKind]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for gvk, k := range r.kinds {
		if !used[gvk] {
			k.stop()
			delete(r.kinds, gvk)
		}
	}
}

// end ends all informers.
func (r *remote) end() {
	r.keep(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}
