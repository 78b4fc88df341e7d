package operator

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/manager"
)

// OwnsKind is Owns for a kind that the Go type T does not determine: T is
// unstructured.Unstructured, or metav1.PartialObjectMetadata to watch and keep only metadata, which
// is enough to find the owner.
//
//	certificate := schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
//	operator.OwnsKind[metav1.PartialObjectMetadata](certificate)
func OwnsKind[T any, P client.Pointer[T]](kind schema.GroupVersionKind, predicates ...Predicate) Option {
	return func(s *settings) {
		s.watches = append(s.watches, watch{watchID{"owns", kind, reflect.TypeFor[T]()},
			func(w watching) (controller.Source, error) {
				enqueue := controller.EnqueueOwner
				if w.settings.everyOwner {
					enqueue = controller.EnqueueEveryOwner
				}
				return w.on(ofKind[T, P](kind), enqueue(w.owner, w.cluster.Client().Mapper()), predicates), nil
			}})
	}
}

// WatchesKind is Watches for a kind that the Go type T does not determine: T is
// unstructured.Unstructured, or metav1.PartialObjectMetadata to watch and keep only metadata.
//
//	operator.WatchesKind(corev1.SchemeGroupVersion.WithKind("Secret"), (*AtReconciler).usersOf)
//
//	func (r *AtReconciler) usersOf(ctx context.Context, s *metav1.PartialObjectMetadata) []operator.Request
func WatchesKind[R, T any, P client.Pointer[T]](kind schema.GroupVersionKind,
	toRequests func(r R, ctx context.Context, obj *T) []Request, predicates ...Predicate) Option {
	return func(s *settings) {
		s.watches = append(s.watches, watch{watchID{"watches", kind, reflect.TypeFor[T]()},
			func(w watching) (controller.Source, error) {
				r, ok := w.reconciler.(R)
				if !ok {
					return nil, fmt.Errorf("watch %v: the mapping function is a method of %v, but the reconciler is a %T",
						reflect.TypeFor[T](), reflect.TypeFor[R](), w.reconciler)
				}
				ctx := w.cluster.Context() // the client's reads go to the cluster of the object
				handler := controller.EnqueueMapped(func(obj client.Object) []Request {
					return toRequests(r, ctx, (*T)(obj.(P)))
				})
				return w.on(ofKind[T, P](kind), handler, predicates), nil
			}})
	}
}

// ofKind returns an empty object of a Go type. The kind is empty if the type determines it.
func ofKind[T any, P client.Pointer[T]](kind schema.GroupVersionKind) Object {
	obj := P(new(T))
	if !kind.Empty() {
		obj.GetObjectKind().SetGroupVersionKind(kind)
	}
	return obj
}

// Index adds an index to the cache of kind T, in all clusters. values returns the values under
// which an object is found, and must depend only on the object. It must not modify the object. List
// uses the index with client.MatchingIndex:
//
//	operator.Index("topping", func(p *v1.Pizza) []string { return p.Spec.Toppings })
//
//	pizzas, err := client.List[v1.Pizza](ctx, c, client.MatchingIndex{"topping": "tomato"})
//
// An index is of one Go type: a list of unstructured objects can't use that of a typed one. If
// the cache keeps only metadata of the kind (informer.Metadata), lists by an index return an error.
func Index[T any, P client.Pointer[T]](name string, values func(obj *T) []string) Part {
	return IndexKind[T, P](schema.GroupVersionKind{}, name, values)
}

// IndexKind is Index for a kind that the Go type T does not determine: T is
// unstructured.Unstructured or metav1.PartialObjectMetadata.
func IndexKind[T any, P client.Pointer[T]](kind schema.GroupVersionKind, name string,
	values func(obj *T) []string) Part {
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error {
			return h.OnCluster(func(cluster *manager.Cluster) error {
				inf, err := cluster.Informers().For(ofKind[T, P](kind))
				if err == nil {
					err = inf.AddIndex(name, func(obj client.Object) []string { return values((*T)(obj.(P))) })
				}
				if err != nil {
					return fmt.Errorf("index %q of %v: %w", name, reflect.TypeFor[T](), err)
				}
				return nil
			})
		})
		return nil
	})
}

// CacheKind is Cache for a kind without a Go type.
func CacheKind(kind schema.GroupVersionKind, scope informer.Scope, form ...informer.Form) Part {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return cacheOf(u, scope, form)
}
