package builtin

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
)

// entry is a kind in a table of kinds. Kind, group and singular name follow from the hub type.
type entry struct {
	hub    runtime.Object // an empty object of the internal type
	plural string
	// versions are the versions that can be served, preferred first. The first is the storage
	// version. The function selected selects the versions that a control plane serves.
	versions   []string
	short      []string
	categories []string
	verbs      []string // nil: all

	strategy resource.Strategy
	// status is the strategy of the status subresource; nil if the kind has no status subresource.
	status upstream.RESTUpdateStrategy
	// noStatusTable means that the status subresource cannot be rendered as a table.
	noStatusTable bool
	subs          []resource.Subresource
	// fields returns the selectable fields except name and namespace.
	fields func(runtime.Object) fields.Set
	// storedFields: see resource.Resource.StoredFields.
	storedFields func(stored []byte) (fields.Set, bool)

	hooks *resource.Hooks
	// complete sets defaults again before an object is stored. It is needed for strategies that
	// clear fields that have defaults, because JSON omits empty values. nil: not needed.
	complete func(versioned runtime.Object)
	// returned makes DELETE return the object instead of a Status.
	returned bool
	// returnedIn are the versions in which DELETE returns the object, if not all do.
	returnedIn []string
	behavior   resource.Behavior
	// storedAs, storagePath and hashVersion: see the fields of resource.Resource.
	storedAs, storagePath, hashVersion string
	group                              string // set if the hub type is served in two groups (Event)
	// review is set for a kind whose objects are not stored; see the type review.
	review *review
	// computed is set for a kind whose objects are computed for each request; see the type
	// computed.
	computed *computed
}

// v1 is the only version of most kinds.
var v1 = []string{"v1"}

// v1AndBeta are the versions of a kind that also has a beta version.
var v1AndBeta = []string{"v1", "v1beta1"}

// all is the category of `kubectl get all`.
var all = []string{"all"}

// selectable adapts a registry's function from its own type to runtime.Object.
func selectable[T runtime.Object](fieldsOf func(T) fields.Set) func(runtime.Object) fields.Set {
	return func(hub runtime.Object) fields.Set { return fieldsOf(hub.(T)) }
}

// build returns the Resource of an entry.
func (e *entry) build(scheme *runtime.Scheme, noFastPaths bool) (*resource.Resource, error) {
	hub, err := e.hubKind(scheme)
	if err != nil {
		return nil, err
	}
	storage := hub.GroupKind().WithVersion(e.versions[0])
	if e.storedAs != "" {
		storage.Group = schema.ParseGroupResource(e.storedAs).Group
	}
	r := &resource.Resource{
		Group:          hub.Group,
		Plural:         e.plural,
		Singular:       strings.ToLower(hub.Kind),
		Kind:           hub.Kind,
		ListKind:       hub.Kind + "List",
		ShortNames:     e.short,
		Categories:     e.categories,
		Verbs:          slices.Sorted(slices.Values(e.verbs)),
		Behavior:       e.behavior,
		HashVersion:    e.hashVersion,
		StoragePath:    e.storagePath,
		StorageVersion: e.versions[0],
		Fields:         e.fields,
		FieldLabel: func(version, label, value string) (string, string, error) {
			return scheme.ConvertFieldLabel(hub.GroupKind().WithVersion(version), label, value)
		},
		Table:          table(schema.GroupResource{Group: hub.Group, Resource: e.plural}),
		Hooks:          withExpressions(e.hub, hub.GroupKind(), e.hooks),
		ReturnsDeleted: e.returned,
		StoredAs:       e.storedAs,
		Owner:          "builtin",
	}
	for _, version := range e.versions {
		kind := hub.GroupKind().WithVersion(version)
		empty, err := scheme.New(kind)
		if err != nil {
			return nil, fmt.Errorf("make resource %s: no type for %s", e.plural, kind)
		}
		empty.GetObjectKind().SetGroupVersionKind(kind)
		r.Versions = append(r.Versions, resource.Version{Name: version, Deprecated: deprecation.WarningMessage(empty)})
	}
	if !noFastPaths {
		r.StoredFields = e.storedFields
	}
	switch {
	case e.review != nil:
		r.Namespaced, r.Review, r.Verbs = e.review.namespaced, e.review.create, []string{"create"}
	case e.computed != nil:
		r.Namespaced, r.Computed, r.Verbs = e.computed.namespaced, e.computed.read, []string{"get", "list"}
	default:
		r.Namespaced, r.Strategy = e.strategy.NamespaceScoped(), e.strategy
		if s, ok := e.strategy.(dataStrategy); ok && noFastPaths {
			r.Strategy = s.libraryStrategy
		}
	}
	if e.status != nil {
		r.Subresources = append(r.Subresources, resource.Subresource{Name: "status", NoTable: e.noStatusTable,
			Update: &resource.UpdateView{Strategy: e.status}})
	}
	r.Subresources = append(r.Subresources, e.subs...)
	if e.storedAs != "" {
		// The stored bytes have another group, so no version can be served from them unchanged.
		r.StorageVersion = ""
	}
	codec := newCodec(scheme, hub, storage, strictDecoders()[hub.GroupVersion()], r)
	codec.complete = e.complete
	codec.noFastPaths, codec.managers.noFastPaths = noFastPaths, noFastPaths
	r.Codec = codec
	for _, version := range e.returnedIn {
		if r.In == nil {
			r.In = map[string]*resource.Resource{}
		}
		returning := *r
		returning.In, returning.ReturnsDeleted = nil, true
		r.In[version] = &returning
	}
	return r, nil
}

// hubKind returns the kind of the hub type. Some types are also registered in the group
// "extensions", which is no longer served.
func (e *entry) hubKind(scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	kinds, _, err := scheme.ObjectKinds(e.hub)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("make resource %s: %w", e.plural, err)
	}
	hub := kinds[0]
	for _, kind := range kinds {
		if kind.Group == e.group || hub.Group == "extensions" {
			hub = kind
		}
	}
	return hub, nil
}

// newCodec returns the codec of a resource.
func newCodec(scheme *runtime.Scheme, hub, storage schema.GroupVersionKind, d decoders, r *resource.Resource) *Codec {
	c := &Codec{kind: hub.GroupKind(), hub: hub, storage: storage, scheme: scheme, decoders: d}
	c.managers.scheme, c.managers.kind, c.managers.hub = scheme, hub.GroupKind(), hub.GroupVersion()
	c.managers.reset = map[string]any{"": r.Strategy}
	for _, sub := range r.Subresources {
		// Kubernetes resets no fields in these two views of a pod. managedFields therefore record
		// fields that the strategies ignore.
		if sub.Update != nil && sub.Name != "ephemeralcontainers" && sub.Name != "resize" {
			c.managers.reset[sub.Name] = sub.Update.Strategy
		}
	}
	return c
}
