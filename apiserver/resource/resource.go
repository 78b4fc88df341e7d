// Package resource describes how one kind is served.
//
// A [Resource] describes a kind for the verbs (package rest), discovery, OpenAPI
// and the controllers. Package builtin builds Resources from
// Kubernetes' own types and strategies, and package crd from definitions. Where
// the API behaves differently for some kinds, [Behavior] has a field for it.
//
// Vocabulary:
//
//   - hub: the form of an object in memory: the internal Go type for a built-in
//     kind; *unstructured.Unstructured for a custom kind, in the storage version
//     or in that of the request (Resource.In). Strategies and admission work on
//     hubs.
//
//   - stored: JSON in the storage version, with apiVersion and kind. GET and
//     LIST in that version copy these bytes to the socket.
//
//   - versioned: an object in one served version: the Go type of k8s.io/api, or
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

	"k8s.io/apimachinery/pkg/api/meta"
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

// Resource describes how one kind is served. It is immutable once registered; a changed definition
// is a new Resource under the same name.
type Resource struct {
	Group      string
	Plural     string
	Singular   string
	Kind       string
	ListKind   string
	ShortNames []string
	Categories []string
	Namespaced bool
	// Verbs are the verbs that package rest allows, in the order in which discovery shows them; nil
	// means AllVerbs.
	Verbs []string

	// Behavior holds further differences between kinds.
	Behavior Behavior

	// Versions are the served versions, preferred first.
	Versions []Version
	// StorageVersion is the version of stored bytes. It need not be served.
	StorageVersion string
	// HashVersion is the version that the kind's storageVersionHash in discovery is computed from;
	// "" means StorageVersion.
	HashVersion string
	// StoragePath is the part of kube-apiserver's keys in etcd between /registry/ and the object;
	// "" means Plural. Some error messages contain it.
	StoragePath string
	// In holds the Resource for requests in versions other than the storage version, for kinds
	// whose hubs are in the version of the request. A write is then validated as its client wrote
	// it, and converted once, when it is stored. nil: one form of hub serves all versions.
	In map[string]*Resource

	Codec Codec
	// Strategy holds the kind's own rules. Package rest also uses its optional interfaces
	// upstream.RESTGracefulDeleteStrategy, GarbageCollectionDeleteStrategy, ResetFieldsStrategy.
	Strategy Strategy
	// Fields returns the fields of a hub that a field selector may name, in addition to
	// metadata.name and metadata.namespace, in a map that the caller may change. nil: no others.
	Fields func(hub runtime.Object) fields.Set
	// StoredFields returns what Fields returns for the Load of stored bytes, except the name and
	// the namespace. If ok is false, Load and Fields must be called. nil: they must always be.
	StoredFields func(stored []byte) (set fields.Set, ok bool)
	// FieldLabel converts a field selector's label in a version to a key of Fields. It returns
	// Kubernetes' error for an unsupported label. nil: metadata.name, metadata.namespace and the
	// keys of Fields.
	FieldLabel func(version, label, value string) (string, string, error)
	// Table returns the renderer of hubs (one object or a list) as tables for a requested version;
	// nil means the default columns Name and Age.
	Table func(version string) upstream.TableConvertor

	Subresources []Subresource

	// Review, when set, serves a kind that is never stored (SubjectAccessReview, TokenReview, …):
	// POST responds with its result for the decoded body (hub in, hub out), and no other verb
	// exists.
	Review func(ctx context.Context, req *Request, hub runtime.Object) (runtime.Object, error)

	// Computed, when set, serves a kind whose objects are computed for each request and not stored
	// (ComponentStatus, PodMetrics). It returns hubs: those of a namespace, or of all if namespace
	// is "", and only the one with a name unless name is "". Verbs must be Get and List. Lists have
	// all objects in one page, and no resourceVersion. Such objects cannot be watched, because they
	// have no events.
	Computed func(ctx context.Context, namespace, name string) ([]runtime.Object, error)

	// Hooks run as part of each write; may be nil.
	Hooks *Hooks
	// Guard makes each write depend on the object that the Codec was compiled from; nil: none.
	Guard *Guard

	// ReturnsDeleted makes DELETE respond with the last state of the object instead of a Status, as
	// some built-in kinds do.
	ReturnsDeleted bool

	// StoredAs, when not empty, is the store prefix of another resource whose objects this one
	// serves too (events.k8s.io serves the core events).
	StoredAs string

	// Owner names the part of the control plane that registered the Resource ("builtin", "crd", …).
	Owner string
	// Yields makes a custom kind of the same name replace this one while its definition exists.
	// Other kinds take precedence over definitions.
	Yields bool
	// Edition changes with every change of the definition after which objects may be stored or
	// encoded differently, or the kind is served differently. Watches that began before such a
	// change end, and their clients resume at their last resourceVersion. "" for kinds that never
	// change.
	Edition string
	// Since is the revision from which the kind can have objects: that of the creation of its
	// definition. Watches from an earlier revision get 410. 0 for kinds that always exist.
	Since uint64
}

// Version is one served version.
type Version struct {
	Name string
	// Deprecated, when not empty, is sent as a Warning header with every request.
	Deprecated string
}

// Strategy combines Kubernetes' registry strategies for create and update. Package rest runs it
// through upstream.BeforeCreate and upstream.BeforeUpdate.
type Strategy interface {
	upstream.RESTCreateStrategy
	upstream.RESTUpdateStrategy
}

// Codec converts objects of one kind between their forms. All methods are safe for concurrent use.
type Codec interface {
	// New returns an empty hub.
	New() runtime.Object
	// Decode decodes a request body in a version and applies the version's defaults. mediaType is
	// one of MediaJSON, MediaYAML, MediaProtobuf, MediaCBOR. strict lists the errors of strict
	// field validation (unknown and duplicate fields), in Kubernetes' wording. err reports a body
	// that cannot be decoded or is of another kind: an apierrors.StatusError, or an error that
	// becomes BadRequest. Callers report strict before err.
	Decode(body []byte, mediaType, version string) (hub runtime.Object, strict []error, err error)
	// Load decodes stored bytes and applies defaults.
	Load(stored []byte) (hub runtime.Object, err error)
	// Store encodes a hub. It may change the hub while it runs. When it returns, the hub may have
	// changed only in values that Load would not return.
	Store(hub runtime.Object) ([]byte, error)
	// ToVersion converts a hub to a versioned object with apiVersion and kind. The result shares no
	// memory with the hub.
	ToVersion(hub runtime.Object, version string) (runtime.Object, error)
	// FromVersion converts a versioned object to a hub with defaults. It may keep or change its
	// argument.
	FromVersion(versioned runtime.Object) (hub runtime.Object, err error)
	// DecodePatched decodes the JSON that a patch produced, like Decode. It differs where
	// kube-apiserver decodes patched objects differently: see its jsonPatcher.
	DecodePatched(patched []byte, version string) (hub runtime.Object, strict []error, err error)
	// PatchMeta returns the strategic merge patch metadata of a version. ok is false if the kind
	// does not support that patch type (custom resources); the response is then 415.
	PatchMeta(version string) (meta strategicpatch.LookupPatchMeta, ok bool)
	// FieldManager returns the tracker of managedFields for writes in a version to the main
	// resource ("") or a subresource. It is created on first use and kept. It takes and returns
	// hubs.
	FieldManager(version, subresource string) (FieldManager, error)
	// Interfaces returns the apimachinery interfaces of the kind, for admission and negotiation.
	Interfaces() Interfaces
}

// FieldManager updates the managedFields of objects. It is safe for concurrent use.
type FieldManager interface {
	// UpdateNoErrors makes the manager with the name by the owner of the fields in which next
	// differs from live. It returns next. If it cannot compute the difference, the owners of live
	// remain.
	UpdateNoErrors(live, next runtime.Object, by string) runtime.Object
	// Apply merges a configuration of the manager with the name by into the live object. The error
	// may be an apierrors.StatusError.
	Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error)
}

// Merger is an optional interface of a Codec. MergePatch applies a merge patch to an object, both
// as JSON and the object in a version, and returns the hub that DecodePatched would return for the
// result. ok is false if the patch, the object or the result causes any error or warning; the
// caller must then use DecodePatched.
type Merger interface {
	MergePatch(object, patch []byte, version string) (hub runtime.Object, ok bool)
}

// Shortcut is an optional interface of a strategy. Its methods change and validate a hub like
// k8s.io/apiserver's rest.BeforeCreate and rest.BeforeUpdate with the strategy, but only if the
// hub's metadata is certainly valid and causes no warning. errs are the validation errors of the
// other parts of the object. If done is false, the methods have changed nothing and the caller must
// use the library.
type Shortcut interface {
	BeforeCreate(ctx context.Context, hub runtime.Object) (errs field.ErrorList, done bool)
	BeforeUpdate(ctx context.Context, hub, old runtime.Object) (errs field.ErrorList, done bool)
}

// Verbatim is an optional interface of a Codec. Verbatim reports whether an object's stored bytes
// equal what Store would return for their Load now, so that responses in the storage version can
// copy them. Objects stored under an older schema may differ: reading applies the current defaults
// and pruning. Without the interface all objects are verbatim.
type Verbatim interface {
	Verbatim(obj *store.Object) bool
}

// Fresh is an optional interface of a Codec. Written returns what ToVersion would return for the
// Load of stored bytes, from the hub that Store encoded to them. It consumes the hub. ok is false
// if the results may differ.
type Fresh interface {
	Written(hub runtime.Object, stored []byte, version string) (versioned runtime.Object, ok bool)
}

// LeanTable is an optional interface of a table converter. IgnoresManagedFields reports that its
// cells do not depend on metadata.managedFields, so that the hubs need not have them.
type LeanTable interface {
	IgnoresManagedFields() bool
}

// Direct is an optional interface of a Codec. Stored decodes stored bytes to the type of the
// storage version, without a hub. The result has the values of the bytes, which responses in JSON
// copy. ok is false if the codec cannot do that.
type Direct interface {
	Stored(stored []byte) (versioned runtime.Object, ok bool)
}

// Waiting is an optional interface of a Codec. Waits reports whether its methods may wait for
// another server, such as a conversion webhook.
type Waiting interface {
	Waits() bool
}

// Lossy is an optional interface of a Codec. FromVersionStrict is like FromVersion, and returns an
// error for each field that the conversion to the hub loses.
type Lossy interface {
	FromVersionStrict(versioned runtime.Object) (hub runtime.Object, lost []error, err error)
}

// Showing is an optional interface of a Codec. HiddenAnnotation returns the annotation that a
// response with only the metadata of an object omits, because the hub keeps its value elsewhere. It
// is empty for kinds without one.
type Showing interface {
	HiddenAnnotation() string
}

// Affordable is an optional interface of a Codec. Its methods return an error for an object with
// values that are too expensive to decode, such as the quantity 1e2000000000. CheckBody takes the
// body of a request, and CheckTree an object as maps and lists; want is the kind if the object
// names none. Decode and FromVersion call them; code that decodes in another way must call them
// first.
type Affordable interface {
	CheckBody(body []byte, mediaType string, want schema.GroupVersionKind) error
	CheckTree(object map[string]any, want schema.GroupVersionKind) error
}

// Modelled is an optional interface of a Codec. TypeConverter returns the model of the kind, which
// defines how lists and maps merge in all its versions.
type Modelled interface {
	TypeConverter() (managedfields.TypeConverter, error)
}

// Interfaces are the apimachinery interfaces of a kind that admission and encoders need.
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

// Subresource is one path below an object. Exactly one of Update, Create, Connect is set.
// An Update subresource serves GET, PUT and PATCH.
type Subresource struct {
	Name string // "status", "scale", "log", "binding", "eviction" …
	// Versions are the versions of the resource that have it; nil means all.
	Versions []string
	// Verbs are the verbs that discovery shows; nil means those that follow from Update, Create or
	// Connect.
	Verbs []string
	// GVK is the kind of bodies and responses if it differs from the resource's own (Scale,
	// Binding, Eviction); else zero.
	GVK schema.GroupVersionKind

	// Update makes the subresource a view of the same stored object with its own rules (status,
	// scale, finalize, …).
	Update *UpdateView
	// Create handles POST (binding, eviction, token): it takes the decoded body (a versioned object
	// of GVK) and returns the object to respond with.
	Create func(ctx context.Context, req *Request, body runtime.Object) (runtime.Object, error)
	// Owners returns the field manager of the bodies of Create, whose managedFields admission sees;
	// nil: bodies have none. For an Update whose view is a Scale, it is the field manager of
	// versioned Scales; nil: one that deduces the types of fields.
	Owners func() (FieldManager, error)
	// Prepare checks and completes a body of Create after the mutating plugins and before the
	// validating ones; nil: nothing. body is a hub of GVK.
	Prepare func(ctx context.Context, req *Request, body runtime.Object) error
	// Accepts are further versions of GVK in which Create takes bodies. They are converted to GVK.
	Accepts []string
	// Connect returns a handler that serves the request itself (log, exec, attach, portforward,
	// proxy).
	Connect func(ctx context.Context, req *Request, obj runtime.Object) (http.Handler, error)
	// ConnectOptions decodes the options of Connect from the query, as a hub of GVK
	// (PodExecOptions), for Connect and for admission. The key "path" holds the part of the
	// request's path after the subresource. nil: the subresource has no options, and its requests
	// count as reads, which bypass admission.
	ConnectOptions func(query url.Values) (runtime.Object, error)
	// NoTable means that the view cannot be rendered as a table.
	NoTable bool
	// ConnectVerbs are the HTTP methods that Connect serves; nil means GET.
	ConnectVerbs []string
	// Object returns the name of the object from its segment of the path ("https:web:8443"); nil:
	// the segment is the name. An empty name means that Connect reads the objects that it needs;
	// its obj is then nil.
	Object func(id string) (name string, err error)
}

// UpdateView is a writable view of an object.
type UpdateView struct {
	Strategy upstream.RESTUpdateStrategy
	// Get and Set translate between the object's hub and the view's own versioned object
	// (scale). Both nil: the view has the object's own shape (status).
	Get func(hub runtime.Object) (view runtime.Object, err error)
	Set func(hub runtime.Object, view runtime.Object) error
	// Replicas returns the path of the field in a version that a Scale calls spec.replicas, for
	// managedFields; it may return nil. Replicas nil: the path is spec.replicas.
	Replicas func(version string) fieldpath.Path
	// Table returns the renderer of the view; nil: the resource's own Table renders the view's hub.
	Table func() upstream.TableConvertor
	// Internal means that the view has an internal type. Bodies of the view are converted to it,
	// which also checks their kind, and errors name it.
	Internal bool
	// NewView returns an empty versioned object of the view's GVK. It is nil if Get and Set are.
	NewView func() runtime.Object
}

// Request describes a request to a subresource handler.
type Request struct {
	Resource  *Resource
	Version   string
	Namespace string
	Name      string
	DryRun    bool
	Query     map[string][]string
	// Options are the options of a connection: see Subresource.ConnectOptions.
	Options runtime.Object
	// Fail responds with an error as the verbs do, for use within the handler that Connect
	// returned.
	Fail func(w http.ResponseWriter, req *http.Request, err error)
	// Objects reads and writes objects through the verbs, with all their rules.
	Objects Objects
}

// Objects provides the verbs on stored objects in process, for subresource handlers and hooks: hub
// in, hub out.
type Objects interface {
	Get(ctx context.Context, res *Resource, namespace, name string) (runtime.Object, error)
	// Update runs change on the newest hub and writes the result. It retries on conflict. A nil
	// strategy means the resource's own. With dryRun nothing is stored.
	Update(ctx context.Context, res *Resource, namespace, name string, strategy upstream.RESTUpdateStrategy,
		dryRun bool,
		change func(hub runtime.Object) error) (runtime.Object, error)
	// UpdateStatus changes the status and the metadata of an object as the server itself, through
	// the whole pipeline, so that admission and audit apply. It retries on conflict.
	UpdateStatus(ctx context.Context, res *Resource, namespace, name string, dryRun bool,
		change func(hub runtime.Object) error) (runtime.Object, error)
	Delete(ctx context.Context, res *Resource, namespace, name string, opts *metav1.DeleteOptions) (runtime.Object,
		error)
	List(ctx context.Context, res *Resource, namespace string, sel labels.Selector) ([]runtime.Object, error)
}

// Hooks run inside a write: after validation and admission, before the commit. An error rejects the
// write. They may change the hub (allocate an address). undo, when not nil, is called if the write
// is not committed or was a dry run. extra is committed atomically with the write.
type Hooks struct {
	// Early runs OnCreate and OnUpdate before the strategy prepares and validates the hub, so that
	// validation sees the values that the hooks allocate.
	Early bool
	// Permit checks whether the request's user may write this content, in addition to authorization
	// (no user may grant rights through a role without having them). It runs before the strategy;
	// old is nil for a create. Its error is the response.
	Permit func(ctx context.Context, hub, old runtime.Object) error
	// Creating is called before the admission of a new object, which a client requests by a create,
	// an update or an apply. name is "" if it will be generated. Its error is the response.
	Creating func(ctx context.Context, name string) error
	// Deleting is called with the options of each DELETE of an object or, with the name "", of a
	// collection, before objects are read. It may add warnings. Its error is the response.
	Deleting func(ctx context.Context, name string, opts *metav1.DeleteOptions) error
	OnCreate func(ctx context.Context, hub runtime.Object, dryRun bool) (extra []store.Op, undo func(), err error)
	OnUpdate func(ctx context.Context, hub, old runtime.Object, dryRun bool) (extra []store.Op, undo func(), err error)
	// OnDelete is called by a DELETE before finalizers are checked. The hub is private to the call:
	// OnDelete may add finalizers and change the status, and its changes are stored with the
	// deletionTimestamp. It is not called for an object that already has a deletionTimestamp.
	OnDelete func(ctx context.Context, hub runtime.Object, dryRun bool) error
	// HoldsDelete reports whether the kind's own rules keep an object that is being deleted, as
	// metadata.finalizers do (spec.finalizers of a Namespace). The update after which it returns
	// false removes the object. nil: never.
	HoldsDelete func(hub runtime.Object) bool
	// OnRemove returns operations to commit together with the removal of an object. It is called
	// again if one of them conflicts with another write.
	OnRemove func(ctx context.Context, hub runtime.Object) (extra []store.Op, err error)
	// AfterCommit is called when the write is visible and before the response: created (old nil),
	// updated, or deleted (hub nil). stored is the result of the commit; for a deletion, it is the
	// last state with the revision of the deletion. What outlives the call must be computed from
	// the bytes in stored, which a restart and other servers decode: the hub may be another object
	// in memory, depending on the encoding of the request. Definitions use AfterCommit to serve
	// their paths immediately.
	AfterCommit func(ctx context.Context, hub, old runtime.Object, stored *store.Object)
}

// GroupResource returns the resource's plural name with its group.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Plural}
}

// Prefix returns the Resource part of the store keys of this kind ("pods", "ats.cnat.example.com").
func (r *Resource) Prefix() string {
	if r.StoredAs != "" {
		return r.StoredAs
	}
	return r.GroupResource().String()
}

// GVK returns the resource's kind in a version.
func (r *Resource) GVK(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: version, Kind: r.Kind}
}

// GVR returns the resource in a version.
func (r *Resource) GVR(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: version, Resource: r.Plural}
}

// Key returns the store key of an object of this kind.
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

// Serves returns a version if it is served.
func (r *Resource) Serves(version string) (*Version, bool) {
	for i := range r.Versions {
		if r.Versions[i].Name == version {
			return &r.Versions[i], true
		}
	}
	return nil, false
}

// Own sets the managedFields of hub, which a write changes from before, to those after an update by
// manager. Writes through [Objects] do not track them. version is that of the entry in
// managedFields.
func (r *Resource) Own(before, hub runtime.Object, version, subresource, manager string) error {
	fields, err := r.Codec.FieldManager(version, subresource)
	if err != nil {
		return err
	}
	owned, err := meta.Accessor(fields.UpdateNoErrors(before, hub.DeepCopyObject(), manager))
	if err != nil {
		return err
	}
	object, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	object.SetManagedFields(owned.GetManagedFields())
	return nil
}
