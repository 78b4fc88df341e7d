package client

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Mapper is a RESTMapper that asks discovery when it must: for one group version when a kind is met by its full name, for
// everything when a name is partial; and again when what it has does not know the name. There is no polling, so a kind
// that has come into being a moment ago is found, and one that is gone is noticed by whoever uses it.
//
// It is safe for concurrent use; no lock is held while the server is asked.
type Mapper struct {
	get   func(ctx context.Context, path string, into any) error
	keeps bool

	mu     sync.RWMutex
	kinds  map[schema.GroupVersionKind]*meta.RESTMapping
	groups meta.RESTMapper // of everything; nil before the first partial name
}

var _ meta.ResettableRESTMapper = (*Mapper)(nil)

// discoveryTimeout bounds the questions of calls that have no context.
const discoveryTimeout = 30 * time.Second

type fresh struct{}

// IsFresh says that a Mapper has looked in what it knows and not found what it is asked for: what it reads in this context should come from
// the server, not from where it is kept.
func IsFresh(ctx context.Context) bool { return ctx.Value(fresh{}) != nil }

// NewMapper makes a mapper that reads discovery documents through get: path is absolute ("/apis/apps/v1"), errors are
// apierrors.
func NewMapper(get func(ctx context.Context, path string, into any) error) *Mapper {
	return &Mapper{get: get, kinds: map[schema.GroupVersionKind]*meta.RESTMapping{}}
}

// NewKeepingMapper is NewMapper with a get that keeps documents, and asks the server when IsFresh says so.
func NewKeepingMapper(get func(ctx context.Context, path string, into any) error) *Mapper {
	m := NewMapper(get)
	m.keeps = true
	return m
}

// Reset forgets everything.
func (m *Mapper) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kinds, m.groups = map[schema.GroupVersionKind]*meta.RESTMapping{}, nil
}

// mapping is RESTMapping of one version, within ctx.
func (m *Mapper) mapping(ctx context.Context, gk schema.GroupKind, version string) (*meta.RESTMapping, error) {
	gvk := gk.WithVersion(version)
	if found := m.known(gvk); found != nil {
		return found, nil
	}
	found, err := m.look(ctx, gvk)
	if meta.IsNoMatchError(err) && m.keeps {
		return m.look(context.WithValue(ctx, fresh{}, true), gvk)
	}
	return found, err
}

func (m *Mapper) known(gvk schema.GroupVersionKind) *meta.RESTMapping {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.kinds[gvk]
}

// look reads the resources of a kind's version.
func (m *Mapper) look(ctx context.Context, gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	gv := gvk.GroupVersion()
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	var list metav1.APIResourceList
	switch err := m.get(ctx, path, &list); {
	case apierrors.IsNotFound(err): // no such version: no such kind
	case err != nil:
		return nil, fmt.Errorf("discover %s: %w", gvk, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind := range m.kinds {
		if kind.GroupVersion() == gv {
			delete(m.kinds, kind) // what is served no longer
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

// all reads every group version. One that does not answer (the backend of an APIService may be down) is left out.
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
			kinds = append(kinds, kindsOf(schema.GroupVersion{Group: group.Name, Version: v.Version}, list.APIResources))
		}
		prefer(meta.AnyVersion)
	}
	found.Delegate = kinds
	return found, nil
}

// kindsOf maps the kinds of one version.
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
		if singular == "" { // servers of old do not say
			singular = strings.ToLower(r.Kind)
		}
		kinds.AddSpecific(gv.WithKind(r.Kind), gv.WithResource(r.Name), gv.WithResource(singular), scope)
	}
	return kinds
}

// ask answers from what is known, and from a fresh look when that has no match.
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

// RESTMapping finds the resource of a kind, in the first of versions that has it, or in the preferred version.
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

// RESTMappings finds all resources of a kind.
func (m *Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return ask(m, func(r meta.RESTMapper) ([]*meta.RESTMapping, error) { return r.RESTMappings(gk, versions...) })
}

// KindFor finds the kind of a resource that may be named in part.
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return ask(m, func(r meta.RESTMapper) (schema.GroupVersionKind, error) { return r.KindFor(resource) })
}

// KindsFor finds all kinds of a resource that may be named in part.
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return ask(m, func(r meta.RESTMapper) ([]schema.GroupVersionKind, error) { return r.KindsFor(resource) })
}

// ResourceFor completes the name of a resource.
func (m *Mapper) ResourceFor(resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return ask(m, func(r meta.RESTMapper) (schema.GroupVersionResource, error) { return r.ResourceFor(resource) })
}

// ResourcesFor finds all resources of a name.
func (m *Mapper) ResourcesFor(resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return ask(m, func(r meta.RESTMapper) ([]schema.GroupVersionResource, error) { return r.ResourcesFor(resource) })
}

// ResourceSingularizer finds the singular of a resource's name.
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	return ask(m, func(r meta.RESTMapper) (string, error) { return r.ResourceSingularizer(resource) })
}
