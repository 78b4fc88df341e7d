package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Mapper is a RESTMapper that calls discovery on demand: for one group version when a fully
// qualified kind is first used, for all groups for a partial name, and again for names that it does
// not find. It does not poll. It finds a kind as soon as it is served. If a kind no longer exists,
// the requests that use it fail. If it came back with another plural or scope, the first request
// fails, and a Client then calls discovery again.
//
// A Mapper is safe for concurrent use. It holds no lock during requests.
type Mapper struct {
	get   func(ctx context.Context, path string, into any) error
	keeps bool

	mu     sync.RWMutex
	kinds  map[schema.GroupVersionKind]*meta.RESTMapping
	groups meta.RESTMapper // of all groups; nil before the first partial name
}

var _ meta.ResettableRESTMapper = (*Mapper)(nil)

// discoveryTimeout bounds discovery in methods without a context parameter.
const discoveryTimeout = 30 * time.Second

type fresh struct{}

// IsFresh reports whether get must read from the server, not from a cache, because a Mapper has not
// found a name in the documents that get returned before.
func IsFresh(ctx context.Context) bool { return ctx.Value(fresh{}) != nil }

// NewMapper returns a Mapper that reads discovery documents through get. path is absolute
// ("/apis/apps/v1"); errors are apierrors.
func NewMapper(get func(ctx context.Context, path string, into any) error) *Mapper {
	return &Mapper{get: get, kinds: map[schema.GroupVersionKind]*meta.RESTMapping{}}
}

// NewKeepingMapper is NewMapper for a get that caches documents, and reads from the server if
// IsFresh reports true.
func NewKeepingMapper(get func(ctx context.Context, path string, into any) error) *Mapper {
	m := NewMapper(get)
	m.keeps = true
	return m
}

// Reset clears the cached mappings.
func (m *Mapper) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kinds, m.groups = map[schema.GroupVersionKind]*meta.RESTMapping{}, nil
}

// forget clears the cached mappings of a group.
func (m *Mapper) forget(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.kinds, func(kind schema.GroupVersionKind, _ *meta.RESTMapping) bool {
		return kind.Group == group
	})
	m.groups = nil
}

// mapping is RESTMapping for one version, with a context.
func (m *Mapper) mapping(ctx context.Context, gk schema.GroupKind, version string) (*meta.RESTMapping, error) {
	gvk := gk.WithVersion(version)
	if found := m.known(gvk); found != nil {
		return found, nil
	}
	found, err := m.discover(ctx, gvk)
	if meta.IsNoMatchError(err) && m.keeps {
		return m.discover(context.WithValue(ctx, fresh{}, true), gvk)
	}
	return found, err
}

func (m *Mapper) known(gvk schema.GroupVersionKind) *meta.RESTMapping {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.kinds[gvk]
}

// discover reads the resources of the kind's group version.
func (m *Mapper) discover(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	gv := gvk.GroupVersion()
	if err := errors.Join(checkSegment("group", gv.Group), checkSegment("version", gv.Version)); err != nil {
		return nil, fmt.Errorf("discover %s: %w", gvk, err)
	}
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	var list metav1.APIResourceList
	switch err := m.get(ctx, path, &list); {
	case apierrors.IsNotFound(err): // the version is not served, and so neither is the kind
	case err != nil:
		return nil, fmt.Errorf("discover %s: %w", gvk, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind := range m.kinds {
		if kind.GroupVersion() == gv {
			delete(m.kinds, kind) // no longer served
		}
	}
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") {
			continue // a subresource
		}
		scope := meta.RESTScopeRoot
		if r.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		kind := gv.WithKind(r.Kind)
		m.kinds[kind] = &meta.RESTMapping{Resource: gv.WithResource(r.Name), GroupVersionKind: kind, Scope: scope}
	}
	if found := m.kinds[gvk]; found != nil {
		return found, nil
	}
	return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// all reads every group version. It skips versions that fail, because the backend of an APIService
// may be down.
func (m *Mapper) all(ctx context.Context) (meta.RESTMapper, error) {
	var groups metav1.APIGroupList
	if err := m.get(ctx, "/apis", &groups); err != nil {
		return nil, fmt.Errorf("discover groups: %w", err)
	}
	var legacy metav1.APIVersions
	if err := m.get(ctx, "/api", &legacy); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("discover the core group: %w", err)
	}
	core := metav1.APIGroup{}
	for i, v := range legacy.Versions {
		version := metav1.GroupVersionForDiscovery{GroupVersion: v, Version: v}
		core.Versions = append(core.Versions, version)
		if i == 0 {
			core.PreferredVersion = version
		}
	}
	found := meta.PriorityRESTMapper{}
	var kinds meta.MultiRESTMapper
	for _, group := range append([]metav1.APIGroup{core}, groups.Groups...) {
		prefer := func(version string) {
			gv := schema.GroupVersion{Group: group.Name, Version: version}
			found.ResourcePriority = append(found.ResourcePriority, gv.WithResource(meta.AnyResource))
			found.KindPriority = append(found.KindPriority, gv.WithKind(meta.AnyKind))
		}
		prefer(group.PreferredVersion.Version)
		for _, v := range group.Versions {
			path := "/apis/" + v.GroupVersion
			if group.Name == "" {
				path = "/api/" + v.Version
			}
			var list metav1.APIResourceList
			if err := m.get(ctx, path, &list); err != nil {
				if ctx.Err() != nil {
					return nil, fmt.Errorf("discover %s: %w", v.GroupVersion, err)
				}
				continue
			}
			prefer(v.Version)
			kinds = append(kinds, kindsOf(schema.GroupVersion{Group: group.Name, Version: v.Version},
				list.APIResources))
		}
		prefer(meta.AnyVersion)
	}
	found.Delegate = kinds
	return found, nil
}

// kindsOf maps the kinds of one group version.
func kindsOf(gv schema.GroupVersion, resources []metav1.APIResource) meta.RESTMapper {
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{gv})
	for _, r := range resources {
		if strings.Contains(r.Name, "/") {
			continue // a subresource
		}
		var scope meta.RESTScope = meta.RESTScopeRoot
		if r.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		singular := r.SingularName
		if singular == "" { // old servers leave it out
			singular = strings.ToLower(r.Kind)
		}
		kinds.AddSpecific(gv.WithKind(r.Kind), gv.WithResource(r.Name), gv.WithResource(singular), scope)
	}
	return kinds
}

// ask answers from the cached mappings, and reads discovery again if they have no match.
func ask[T any](m *Mapper, question func(meta.RESTMapper) (T, error)) (T, error) {
	m.mu.RLock()
	known := m.groups
	m.mu.RUnlock()
	if known != nil {
		if answer, err := question(known); !meta.IsNoMatchError(err) {
			return answer, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), discoveryTimeout)
	defer cancel()
	if m.keeps && known != nil {
		ctx = context.WithValue(ctx, fresh{}, true)
	}
	for {
		var none T
		found, err := m.all(ctx)
		if err != nil {
			return none, err
		}
		m.mu.Lock()
		m.groups = found
		m.mu.Unlock()
		answer, err := question(found)
		if !meta.IsNoMatchError(err) || !m.keeps || IsFresh(ctx) {
			return answer, err
		}
		ctx = context.WithValue(ctx, fresh{}, true)
	}
}

// RESTMapping returns the resource of a kind, in the first of versions that has it, or in the
// preferred version.
func (m *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) == 1 && versions[0] != "" {
		if found := m.known(gk.WithVersion(versions[0])); found != nil {
			return found, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), discoveryTimeout)
		defer cancel()
		return m.mapping(ctx, gk, versions[0])
	}
	return ask(m, func(r meta.RESTMapper) (*meta.RESTMapping, error) { return r.RESTMapping(gk, versions...) })
}

// RESTMappings returns all resources of a kind.
func (m *Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return ask(m, func(r meta.RESTMapper) ([]*meta.RESTMapping, error) { return r.RESTMappings(gk, versions...) })
}

// KindFor returns the kind of a resource, whose name may be partial.
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return ask(m, func(r meta.RESTMapper) (schema.GroupVersionKind, error) { return r.KindFor(resource) })
}

// KindsFor returns all kinds of a resource, whose name may be partial.
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return ask(m, func(r meta.RESTMapper) ([]schema.GroupVersionKind, error) { return r.KindsFor(resource) })
}

// ResourceFor completes a partial resource.
func (m *Mapper) ResourceFor(resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return ask(m, func(r meta.RESTMapper) (schema.GroupVersionResource, error) { return r.ResourceFor(resource) })
}

// ResourcesFor returns all resources that match a partial resource.
func (m *Mapper) ResourcesFor(resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return ask(m, func(r meta.RESTMapper) ([]schema.GroupVersionResource, error) { return r.ResourcesFor(resource) })
}

// ResourceSingularizer returns the singular of a resource name.
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	return ask(m, func(r meta.RESTMapper) (string, error) { return r.ResourceSingularizer(resource) })
}
