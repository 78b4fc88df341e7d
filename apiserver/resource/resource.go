// Package resource says how one kind is served.
//
// A [Resource] is all that the verbs (package rest), discovery, OpenAPI and the
// controllers know of a kind. Package builtin makes Resources from Kubernetes'
// own types and strategies, package crd makes them from definitions; nothing
// else is special about a kind.
//
// Vocabulary:
//
//   - hub: the form in which a kind is worked on in memory: the internal Go
//     type for a built-in kind, *unstructured.Unstructured for a custom one, in
//     the storage version or in that of the request (Resource.In). Strategies
//     and admission see hubs.
//
//   - stored: JSON in the storage version, with apiVersion and kind. GET and
//     LIST in that version copy these bytes to the socket.
//
//   - versioned: the form of one served version: the Go type of k8s.io/api, or
//     *unstructured.Unstructured.
//
//     request body ──Decode──▶ hub ──Store──▶ stored
//     response     ◀──────── versioned ◀─ToVersion── hub ◀──Load── stored
package resource

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"kelson.dev/apiserver/store"
)

// Resource is one kind as it is served. It is immutable once registered; a
// changed definition is a new Resource under the same name.
type Resource struct {
	Group      string
	Plural     string
	Singular   string
	Kind       string
	ListKind   string
	ShortNames []string
	Categories []string
	Namespaced bool
	// Verbs as discovery shows them and the verbs package allows them; nil means all eight
	// (create delete deletecollection get list patch update watch).
	Verbs []string

	// Dynamic means that the objects have no Go type: the kind comes from a definition, and hubs
	// are *unstructured.Unstructured.
	Dynamic bool

	// Versions are the served versions, preferred first.
	Versions []Version
	// StorageVersion is the version of stored bytes. It need not be served.
	StorageVersion string
	// In has the Resource to use for requests in versions other than the storage version, if hubs
	// are in the version of the request. Then a write is validated in the version that the client
	// used, and converted once, when it is stored. nil: one form of hub serves all versions.
	In map[string]*Resource

	Codec Codec
	// Strategy is the kind's own rules. Its optional interfaces are honoured:
	// upstream.RESTGracefulDeleteStrategy, GarbageCollectionDeleteStrategy, ResetFieldsStrategy.
	Strategy Strategy
	// Fields gives the fields a field selector may name, beside metadata.name and
	// metadata.namespace, of a hub. nil: no others.
	Fields func(hub runtime.Object) fields.Set
	// FieldLabel checks and converts a field selector's label of a version to a key of Fields, with
	// Kubernetes' wording for one that is not supported. nil: metadata.name, metadata.namespace and
	// the keys of Fields.
	FieldLabel func(version, label, value string) (string, string, error)
	// Table renders hubs (one object or a list of them) for kubectl; nil means the default columns
	// Name and Age. It is given the version asked for.
	Table func(version string) upstream.TableConvertor

	Subresources []Subresource

	// Review, if not nil, makes the kind virtual: nothing is stored, POST returns the result of
	// Review for the decoded body (hub in, hub out), and there are no other verbs
	// (SubjectAccessReview, TokenReview, …).
	Review func(ctx context.Context, req *Request, hub runtime.Object) (runtime.Object, error)

	// Hooks are business rules that must hold with the write itself; may be nil.
	Hooks *Hooks

	// ReturnsDeleted makes DELETE return the last state of the object instead of a Status, as some
	// built-in kinds do.
	ReturnsDeleted bool

	// StoredAs, when not empty, is the store prefix of another resource whose objects this one also
	// serves (events.k8s.io events are core events).
	StoredAs string

	// Owner names the part of the control plane that registered the Resource ("builtin", "crd", …).
	Owner string
	// Edition changes when a change of the definition alters how objects are stored or presented.
	// Watches that began before then end, and their clients resume where they were. "" for kinds
	// that do not change.
	Edition string
}

// Version is one served version.
type Version struct {
	Name string
	// Deprecated, when not empty, is sent as a Warning header with every request.
	Deprecated string
}

// Strategy is what Kubernetes' registry strategies offer for create and update, which package rest runs
// through upstream.BeforeCreate and upstream.BeforeUpdate.
type Strategy interface {
	upstream.RESTCreateStrategy
	upstream.RESTUpdateStrategy
}

// Codec moves one kind between its forms. All methods are safe for concurrent use.
type Codec interface {
	// New returns an empty hub.
	New() runtime.Object
	// Decode reads a request body of a version. mediaType is one of MediaJSON, MediaYAML,
	// MediaProtobuf, MediaCBOR. The hub has the version's defaults applied. strict lists what
	// strict field validation objects to (unknown and duplicate fields), in Kubernetes' wording;
	// err is for a body that can't be read at all or is something else: an apierrors.StatusError or
	// an error that becomes BadRequest. What strict says comes before it.
	Decode(body []byte, mediaType, version string) (hub runtime.Object, strict []error, err error)
	// Load reads stored bytes; defaults are applied as on read.
	Load(stored []byte) (hub runtime.Object, err error)
	// Store encodes a hub. It may change the hub while it runs. Afterwards the hub is as before,
	// except for what Load would not return.
	Store(hub runtime.Object) ([]byte, error)
	// ToVersion converts a hub to a versioned object with its apiVersion and kind set. The result
	// shares nothing with the hub.
	ToVersion(hub runtime.Object, version string) (runtime.Object, error)
	// FromVersion converts a versioned object to a hub, with defaults applied. It may keep or
	// change its argument.
	FromVersion(versioned runtime.Object) (hub runtime.Object, err error)
	// DecodePatched makes a hub of the JSON that a patch produced, as Decode does.
	// It differs where the patch machinery does: see apiserver's jsonPatcher.
	DecodePatched(patched []byte, version string) (hub runtime.Object, strict []error, err error)
	// PatchMeta returns the strategic merge patch metadata of a version; ok is false if the kind
	// does not support that patch type (custom resources), which results in 415.
	PatchMeta(version string) (meta strategicpatch.LookupPatchMeta, ok bool)
	// FieldManager tracks managedFields for writes in a version to the main resource ("") or a
	// subresource. Made lazily and kept. It takes and gives hubs.
	FieldManager(version, subresource string) (FieldManager, error)
	// Scheme-like interfaces for admission and negotiation.
	Interfaces() Interfaces
}

// FieldManager updates the managedFields of objects. It is safe for concurrent use.
type FieldManager interface {
	// UpdateNoErrors records that manager by set the fields in which next differs from live, and
	// returns next. If the difference can't be determined, the owners stay those of live.
	UpdateNoErrors(live, next runtime.Object, by string) runtime.Object
	// Apply merges the configuration of manager by into the live object. The error may be an
	// apierrors.StatusError.
	Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error)
}

// Merger is an optional interface of a Codec. MergePatch applies a merge patch to an object, both
// JSON and the object in the given version, and returns the hub that DecodePatched would return for
// the result. ok is false if the patch, the object or the result would cause an error or a warning.
type Merger interface {
	MergePatch(object, patch []byte, version string) (hub runtime.Object, ok bool)
}

// Shortcut is an optional interface of a strategy. Its methods do what BeforeCreate and
// BeforeUpdate of apiserver's package rest do with the strategy, in the cases where the hub's
// metadata causes no error and no warning; errs are the errors in the rest of the hub. If done is
// false, they have changed nothing, and the caller must use the library.
type Shortcut interface {
	BeforeCreate(ctx context.Context, hub runtime.Object) (errs field.ErrorList, done bool)
	BeforeUpdate(ctx context.Context, hub, old runtime.Object) (errs field.ErrorList, done bool)
}

// Verbatim is an optional interface of a Codec. Verbatim reports whether the stored bytes of an
// object are exactly what Store would now return for their Load, so that they can be sent unchanged
// to readers in the storage version. Objects stored under an older schema are not: reads apply the
// current defaults and pruning. Without the interface, all objects are verbatim.
type Verbatim interface {
	Verbatim(obj *store.Object) bool
}

// Fresh is an optional interface of a Codec. Written returns what ToVersion would return for
// Load(stored), computed from the hub that Store encoded to stored. It consumes the hub. ok is
// false if the results may differ.
type Fresh interface {
	Written(hub runtime.Object, stored []byte, version string) (versioned runtime.Object, ok bool)
}

// Showing is an optional interface of a Codec. Metadata removes from stored metadata what the hub
// keeps elsewhere, before the metadata is sent alone.
type Showing interface {
	Metadata(stored *metav1.ObjectMeta)
}

// Modelled is an optional interface of a Codec. It returns the type model of the kind, which
// defines how lists and maps merge in all its versions.
type Modelled interface {
	TypeConverter() (managedfields.TypeConverter, error)
}

// Interfaces are the apimachinery views of the kind that admission and encoders ask for.
type Interfaces struct {
	Creater   runtime.ObjectCreater
	Typer     runtime.ObjectTyper
	Defaulter runtime.ObjectDefaulter
	Convertor runtime.ObjectConvertor
}

// Media types of request and response bodies.
const (
	MediaJSON     = "application/json"
	MediaYAML     = "application/yaml"
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
	MediaCBOR     = "application/cbor"
)

// Subresource is one path below an object. Exactly one of Update, Create, Connect is set
// (Update subresources answer GET, PUT and PATCH).
type Subresource struct {
	Name string // "status", "scale", "log", "binding", "eviction" …
	// Versions are the versions of the resource that have it; nil means all.
	Versions []string
	// Verbs as discovery shows them; nil means those that follow from Update, Create or Connect.
	Verbs []string
	// GVK is the kind of the body, if it is not the kind of the resource (Scale, Binding,
	// Eviction); otherwise zero.
	GVK schema.GroupVersionKind

	// Update: the subresource is another view on the same stored object, with rules of its own
	// (status, scale, finalize, …).
	Update *UpdateView
	// Create handles POST (binding, eviction, token): it gets the decoded body (versioned object of
	// GVK) and answers with the object to send.
	Create func(ctx context.Context, req *Request, body runtime.Object) (runtime.Object, error)
	// Connect handles any other method by itself (log, exec, attach, portforward, proxy).
	Connect func(ctx context.Context, req *Request, obj runtime.Object) (http.Handler, error)
	// ConnectOptions reads the options of Connect from the query, as a hub of GVK (PodExecOptions),
	// for Connect and for admission; "path" is what stands behind the subresource in the path. nil:
	// there are none, and the request is a read, which admission does not see.
	ConnectOptions func(query url.Values) (runtime.Object, error)
	// NoTable means that the view can't be rendered as a table.
	NoTable bool
	// ConnectVerbs are the HTTP methods Connect answers; nil means GET.
	ConnectVerbs []string
	// Object returns the name of the object for the path segment in its position
	// ("https:web:8443"); nil: the segment is the name.
	Object func(id string) (name string, err error)
}

// UpdateView is a writable view of an object.
type UpdateView struct {
	Strategy upstream.RESTUpdateStrategy
	// ResetFields, when nil, come from Strategy if it has them.
	// Get and Set translate between the object's hub and the view's own versioned object
	// (scale). Both nil: the view has the object's own shape (status).
	Get func(hub runtime.Object) (view runtime.Object, err error)
	Set func(hub runtime.Object, view runtime.Object) error
	// Replicas returns the path of the field that a Scale calls spec.replicas, for managedFields;
	// nil: the same path. It may return nil.
	Replicas func(version string) fieldpath.Path
	// Table gives the columns of the view; nil: the resource's own table knows the view's hub.
	Table func() upstream.TableConvertor
	// NewView returns an empty versioned object of the view's GVK; nil with Get and Set.
	NewView func() runtime.Object
}

// Request describes the request to a subresource handler.
type Request struct {
	Resource  *Resource
	Version   string
	Namespace string
	Name      string
	DryRun    bool
	Query     map[string][]string
	// Options are those of a connection, see Subresource.ConnectOptions.
	Options runtime.Object
	// Fail responds with an error in the way of the verbs, for handlers that have begun to serve
	// the request.
	Fail func(w http.ResponseWriter, req *http.Request, err error)
	// Objects writes through the verbs, with all their rules.
	Objects Objects
}

// Objects provides subresource handlers and hooks with the verbs on stored objects, in process, hub
// in and hub out.
type Objects interface {
	Get(ctx context.Context, res *Resource, namespace, name string) (runtime.Object, error)
	// Update runs change on the newest hub and writes it, retrying on conflict; strategy nil means
	// the resource's own. With dryRun nothing is stored.
	Update(ctx context.Context, res *Resource, namespace, name string, strategy upstream.RESTUpdateStrategy, dryRun bool,
		change func(hub runtime.Object) error) (runtime.Object, error)
	Delete(ctx context.Context, res *Resource, namespace, name string, opts *metav1.DeleteOptions) (runtime.Object, error)
	List(ctx context.Context, res *Resource, namespace string, sel labels.Selector) ([]runtime.Object, error)
}

// Hooks run inside a write: after validation and admission, before the commit. An error rejects the
// write. They may change the hub (allocate an address). undo, if not nil, is called if the write is
// not committed or was a dry run. Extra ops are committed in the same unit.
type Hooks struct {
	// Early runs OnCreate and OnUpdate before the strategy prepares and validates, so that
	// validation sees the values that the hooks allocate.
	Early bool
	// Permit checks whether the user may write this content, beyond authorization of the verb
	// (users can't grant rights that they do not have). It is called before the strategy sees the
	// hub; old is nil for a create. Its error is sent to the client.
	Permit func(ctx context.Context, hub, old runtime.Object) error
	// Deleting is called with the options of each DELETE, of an object or a collection, before any
	// object is read. It may add warnings.
	Deleting func(ctx context.Context, opts *metav1.DeleteOptions)
	OnCreate func(ctx context.Context, hub runtime.Object, dryRun bool) (extra []store.Op, undo func(), err error)
	OnUpdate func(ctx context.Context, hub, old runtime.Object, dryRun bool) (extra []store.Op, undo func(), err error)
	// OnDelete is called when deletion is asked for, before finalizers are looked at. The hub is
	// private to the call: OnDelete may add finalizers and change the status, and what it changed
	// is stored with the deletionTimestamp. It is not called again for an object that has a
	// deletionTimestamp already.
	OnDelete func(ctx context.Context, hub runtime.Object, dryRun bool) error
	// HoldsDelete reports whether the kind's own rules keep an object that is being deleted, as
	// metadata.finalizers do (spec.finalizers of a Namespace). The update that ends this removes
	// the object. nil: they never do.
	HoldsDelete func(hub runtime.Object) bool
	// AfterCommit is called after the write is visible and before the client is answered: created
	// (old nil), updated, or deleted (hub nil). Definitions use it to serve their paths at once.
	AfterCommit func(ctx context.Context, hub, old runtime.Object, revision uint64)
}

// GroupResource is the resource's name with its group, the first part of every store key.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Plural}
}

// Prefix is the Resource part of the store keys of this kind ("pods", "ats.cnat.example.com").
func (r *Resource) Prefix() string {
	if r.StoredAs != "" {
		return r.StoredAs
	}
	return r.GroupResource().String()
}

// GVK is the resource's kind in a version.
func (r *Resource) GVK(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: version, Kind: r.Kind}
}

// GVR is the resource in a version.
func (r *Resource) GVR(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: version, Resource: r.Plural}
}

// Key is the store key of an object of this kind.
func (r *Resource) Key(namespace, name string) store.Key {
	return store.Key{Resource: r.Prefix(), Namespace: namespace, Name: name}
}

// Subresource finds a subresource by name.
func (r *Resource) Subresource(name string) (*Subresource, bool) {
	for i := range r.Subresources {
		if r.Subresources[i].Name == name {
			return &r.Subresources[i], true
		}
	}
	return nil, false
}

// SubresourceIn finds a subresource of one version by name.
func (r *Resource) SubresourceIn(version, name string) (*Subresource, bool) {
	sub, ok := r.Subresource(name)
	return sub, ok && sub.In(version)
}

// In reports whether a version of the resource has the subresource.
func (s *Subresource) In(version string) bool {
	return s.Versions == nil || slices.Contains(s.Versions, version)
}

// Serves returns a served version by name.
func (r *Resource) Serves(version string) (*Version, bool) {
	for i := range r.Versions {
		if r.Versions[i].Name == version {
			return &r.Versions[i], true
		}
	}
	return nil, false
}
