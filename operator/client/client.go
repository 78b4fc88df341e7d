// Package client reads and writes objects of a Kubernetes API server.
//
// [Client] is what an operator holds. Typed calls are generic functions over it:
//
//	pod, err := client.Get[corev1.Pod](ctx, c, client.Key{Namespace: "default", Name: "web"})
//	for pod, err := range client.Each[corev1.Pod](ctx, c, client.InNamespace("default")) { … }
//
// The same methods take *unstructured.Unstructured (its kind set) and *metav1.PartialObjectMetadata (its kind set) for
// dynamic and metadata-only use. Errors of the server are apierrors.APIStatus values.
//
// # Model
//
// A call is one HTTP request: the kind of the object (from the scheme, or from the object itself when it is dynamic) is
// mapped to a resource, the object is encoded, the answer decoded into a fresh value that replaces the caller's only when
// all went well. Nothing is limited on the client's side: a server that is busy says so with 429 or 503 and Retry-After,
// which is honoured a bounded number of times.
//
// Objects read from the server have their kind and apiVersion set, also those of lists.
//
// A Client is safe for concurrent use and has no background work; every wait ends with the context.
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

// KeyOf is the key of an object.
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

// Reader reads objects. Get fills into; NotFound is an apierrors status. What it returns is the caller's own.
type Reader interface {
	Get(ctx context.Context, key Key, into Object, opts ...GetOption) error
	List(ctx context.Context, into ObjectList, opts ...ListOption) error
}

// Writer writes objects; each call fills obj with the server's answer, except Delete and DeleteAllOf, which leave it alone
// (so that a shared object may be deleted; [Answer] takes what the server says). On an error obj is as it was.
type Writer interface {
	Create(ctx context.Context, obj Object, opts ...WriteOption) error
	// Update replaces the object; a resourceVersion in obj makes it conditional (409 Conflict).
	Update(ctx context.Context, obj Object, opts ...WriteOption) error
	Patch(ctx context.Context, obj Object, patch Patch, opts ...WriteOption) error
	// Apply is server-side apply of obj's set fields, with the client's field owner, forced.
	Apply(ctx context.Context, obj Object, opts ...WriteOption) error
	Delete(ctx context.Context, obj Object, opts ...DeleteOption) error
	DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error
	// Subresource writes a subresource ("status", "scale", "binding", …) of an object.
	Subresource(name string) SubresourceWriter
}

// SubresourceWriter writes one subresource. body may be nil where the object itself is the body (status).
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
	// FieldOwner is the name under which writes are recorded in managedFields.
	FieldOwner() string
}

// Patch is a patch document and its type.
type Patch interface {
	Type() types.PatchType
	Data(obj Object) ([]byte, error)
}
