// Package aggregated gives controllers access to the objects in other API servers, to which
// APIServices refer.
//
// Requests go through the control plane's own pipeline to the aggregator, as they would from a
// controller in another process. While no APIService refers to another server, [Servers.Any] costs
// one atomic load, and nothing else runs.
package aggregated

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/discovery"
)

// Timeout bounds each request to another server except watches, so that a server that hangs does
// not hold a worker for long. The aggregator finds within half a minute that such a server is not
// available; then requests to it fail immediately.
const Timeout = 10 * time.Second

// Config configures Servers. All fields are required.
type Config struct {
	// Discovery returns how other servers' group versions are listed; nil means that there are
	// none. See [kelson.dev/apiserver/aggregator.Aggregator].
	Discovery func() *discovery.Others
	// Changes returns a channel that is closed when Discovery may return something else.
	Changes func() <-chan struct{}
	// REST configures requests to the control plane, as the controller's user.
	REST *rest.Config
}

// Servers are the API servers behind the control plane. A nil *Servers has none. All methods are
// safe for concurrent use.
type Servers struct {
	cfg    Config
	client func() (metadata.Interface, error)
}

// New returns the servers that Discovery lists.
func New(cfg Config) *Servers {
	return &Servers{cfg: cfg, client: sync.OnceValues(func() (metadata.Interface, error) {
		return metadata.NewForConfig(cfg.REST)
	})}
}

// Kind is one resource of another server.
type Kind struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	Verbs      []string
}

// Supports reports whether discovery lists all of the verbs.
func (k *Kind) Supports(verbs ...string) bool {
	return !slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(k.Verbs, v) })
}

// Any reports whether there are other servers.
func (s *Servers) Any() bool { return s != nil && s.cfg.Discovery() != nil }

// Serve reports whether another server serves a group version.
func (s *Servers) Serve(gv schema.GroupVersion) bool {
	if s == nil {
		return false
	}
	others := s.cfg.Discovery()
	return others != nil && (*others)[gv].Served
}

// Find returns the resource with this group, version and kind of another server. It reports false
// if the server has not listed such a resource, or did not answer the last request for its
// resources.
func (s *Servers) Find(gvk schema.GroupVersionKind) (Kind, bool) {
	others := s.cfg.Discovery()
	if others == nil {
		return Kind{}, false
	}
	other := (*others)[gvk.GroupVersion()]
	if other.Stale {
		return Kind{}, false
	}
	for i := range other.Resources {
		if k := kindOf(gvk.GroupVersion(), &other.Resources[i]); k.GroupVersion() == gvk.GroupVersion() &&
			k.Kind == gvk.Kind {
			return k, true
		}
	}
	return Kind{}, false
}

func kindOf(gv schema.GroupVersion, r *apidiscoveryv2.APIResourceDiscovery) Kind {
	k := Kind{GroupVersionResource: gv.WithResource(r.Resource), Namespaced: r.Scope == apidiscoveryv2.ScopeNamespace,
		Verbs: r.Verbs}
	if r.ResponseKind != nil {
		k.Kind = r.ResponseKind.Kind
	}
	return k
}

// Kinds returns the resources of all other servers, each in its group's preferred version. The
// error is a [clientdiscovery.ErrGroupDiscoveryFailed] with the group versions whose servers did
// not answer; their resources, as last listed, are returned too.
func (s *Servers) Kinds() ([]Kind, error) {
	if !s.Any() {
		return nil, nil
	}
	others := s.cfg.Discovery()
	if others == nil {
		return nil, nil
	}
	var versions []schema.GroupVersion
	failed := map[schema.GroupVersion]error{}
	for gv, other := range *others {
		if !other.Served {
			continue
		}
		versions = append(versions, gv)
		if other.Stale {
			failed[gv] = fmt.Errorf("stale GroupVersion discovery: %v", gv)
		}
	}
	slices.SortFunc(versions, func(a, b schema.GroupVersion) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare((*others)[b].Version, (*others)[a].Version),
			version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	var kinds []Kind
	seen := map[schema.GroupResource]bool{}
	for _, gv := range versions {
		resources := (*others)[gv].Resources
		for i := range resources {
			k := kindOf(gv, &resources[i])
			if len(k.Verbs) > 0 && !seen[k.GroupResource()] {
				seen[k.GroupResource()] = true
				kinds = append(kinds, k)
			}
		}
	}
	if len(failed) > 0 {
		return kinds, &clientdiscovery.ErrGroupDiscoveryFailed{Groups: failed}
	}
	return kinds, nil
}

// Client returns a client for the objects of a kind: in one namespace, or with "" in all, or of a
// cluster-scoped kind.
func (s *Servers) Client(gvr schema.GroupVersionResource, namespace string) (metadata.ResourceInterface, error) {
	client, err := s.client()
	if err != nil {
		return nil, fmt.Errorf("create client of %s: %w", gvr, err)
	}
	if namespace == "" {
		return client.Resource(gvr), nil
	}
	return client.Resource(gvr).Namespace(namespace), nil
}

// Follow calls changed when it begins, and whenever Discovery may return something else, until ctx
// ends. Calls do not overlap.
func (s *Servers) Follow(ctx context.Context, changed func()) {
	if s == nil {
		return
	}
	for {
		next := s.cfg.Changes()
		changed()
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}
