// Package client reads and writes objects of a Kubernetes API server.
//
// [Client] is the interface that operators use. Typed calls are generic functions over it:
//
//	pod, err := client.Get[corev1.Pod](ctx, c, client.Key{Namespace: "default", Name: "web"})
//	for pod, err := range client.Each[corev1.Pod](ctx, c, client.InNamespace("default")) { … }
//
// The same methods take *unstructured.Unstructured and *metav1.PartialObjectMetadata, both with
// their kind set, for dynamic and metadata-only use. Errors from the server are apierrors.APIStatus
// values.
//
// # Model
//
// A call is one HTTP request. The client maps the kind of the object (from its Go type, or from the
// object itself if it is dynamic) to a resource, encodes the object, and decodes the response into
// a new value that replaces the caller's only on success. The client does not limit its request
// rate. A server under load responds with 429 or 503 and Retry-After, and the client then retries a
// bounded number of times.
//
// Objects that the client reads have kind and apiVersion set, including the items of lists.
//
// A Client is safe for concurrent use and runs nothing in the background. All calls return when
// their context ends. A call, except Watch, also fails if the server does not begin to respond
// within two minutes, or within the timeout in the rest.Config if that is longer. A read also fails
// if its response pauses for two minutes.
//
// # For caches and frameworks
//
// Reconcilers need none of the following. They are exported for code that keeps objects, wraps
// clients or generates requests, such as packages informer, reconcile and adapter, and are as
// stable as the rest:
//   - [Encoded], [NewEncoded], [Encode], [Decode], [MetadataOf], [Items], [NewItems], [ItemOf],
//     [FillList]: objects and lists of types that are not known at compile time;
//   - [Ahead], [Known], ListOptions.Shared, GetOptions.Shared: reads that share memory or overlap
//     requests; the results must not be modified;
//   - WriteOptions.Given and WriteOptions.New, [Transformed]: guarantees of the caller to a cache;
//   - [ApplyDocument], [StatusPatch], [DiffFrom]: patches that the library itself sends;
//   - [NewKeepingMapper], [IsFresh], [MapperIn], [Document], [Steady]: discovery and transports.
package client

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Key names an object within its kind.
type Key = types.NamespacedName

// KeyOf returns the key of an object.
func KeyOf(obj metav1.Object) Key {
	return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Object is any API object with metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// ObjectList is any list of API objects.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// Pointer constrains P to be *T and an Object, so that generic calls name only the struct type.
type Pointer[T any] interface {
	*T
	Object
}

// Reader reads objects into values of the caller. For a missing object, Get returns a NotFound
// status (see apierrors).
type Reader interface {
	Get(ctx context.Context, key Key, into Object, opts ...GetOption) error
	List(ctx context.Context, into ObjectList, opts ...ListOption) error
}

// Writer writes objects. Each call stores the server's response in obj, except Delete and
// DeleteAllOf, which don't modify obj, so that callers can pass shared objects; use [Answer] to get
// the response of a Delete. On an error, obj is unchanged.
type Writer interface {
	Create(ctx context.Context, obj Object, opts ...WriteOption) error
	// Update replaces the object. A resourceVersion in obj makes the update conditional (409
	// Conflict).
	Update(ctx context.Context, obj Object, opts ...WriteOption) error
	Patch(ctx context.Context, obj Object, patch Patch, opts ...WriteOption) error
	// Apply is a server-side apply of the fields set in obj, with the client's field owner and
	// force.
	Apply(ctx context.Context, obj Object, opts ...WriteOption) error
	Delete(ctx context.Context, obj Object, opts ...DeleteOption) error
	DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error
	// Subresource writes a subresource ("status", "scale", "binding", …) of an object.
	Subresource(name string) SubresourceWriter
}

// SubresourceWriter accesses one subresource. body may be nil if the object itself is the body
// (status).
type SubresourceWriter interface {
	Get(ctx context.Context, obj Object, into runtime.Object) error
	Create(ctx context.Context, obj Object, body runtime.Object, opts ...WriteOption) error
	Update(ctx context.Context, obj Object, body runtime.Object, opts ...WriteOption) error
	Patch(ctx context.Context, obj Object, patch Patch, opts ...WriteOption) error
	Apply(ctx context.Context, obj Object, opts ...WriteOption) error
}

// Watcher opens watches.
type Watcher interface {
	Watch(ctx context.Context, list ObjectList, opts ...ListOption) (watch.Interface, error)
}

// Client is a Reader, Writer and Watcher of one API server. Safe for concurrent use.
type Client interface {
	Reader
	Writer
	Watcher
	Scheme() *runtime.Scheme
	Mapper() meta.RESTMapper
	// FieldOwner returns the field manager name that writes are recorded under in managedFields.
	FieldOwner() string
}

// Patch is a patch document and its type.
type Patch interface {
	Type() types.PatchType
	Data(obj Object) ([]byte, error)
}
