package operator

import (
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Namespaces restricts what the operator reads, watches and reconciles to the named namespaces; the
// default is all of them. If a watch names an object in another namespace, the request is dropped
// and logged. Cluster-scoped kinds are not restricted.
func Namespaces(names ...string) Part {
	return partFunc(func(p *parts) error {
		p.caches.Scope.Namespaces = names
		return nil
	})
}

// Cache restricts which objects of kind T the operator caches, and sets the form in which it keeps
// them. By default, it caches all objects, or those in Namespaces. Namespaces also apply to a scope
// without namespaces; metav1.NamespaceAll in a scope means all namespaces. The client reads objects
// in namespaces outside of the scope from the API server. It does not find other objects outside of
// the scope. Controllers of the kind do not reconcile objects outside of the scope.
func Cache[T any, P client.Pointer[T]](scope informer.Scope, form ...informer.Form) Part {
	return cacheOf(P(new(T)), scope, form)
}

func cacheOf(obj Object, scope informer.Scope, form []informer.Form) Part {
	return partFunc(func(p *parts) error {
		if p.caches.Scopes == nil {
			p.caches.Scopes = map[client.Object]informer.Scope{}
		}
		p.caches.Scopes[obj] = scope
		if len(form) > 0 {
			if p.caches.Forms == nil {
				p.caches.Forms = map[client.Object]informer.Form{}
			}
			p.caches.Forms[obj] = form[0]
		}
		return nil
	})
}

// Transform changes each object of kind T before the cache keeps it, to save memory. change may
// modify and return its argument. It must not change the name or the resourceVersion. Several
// transforms of a kind are called in order. Other kinds are not affected; for T, the client sends
// every Apply, because the cache can't tell whether it would change anything.
func Transform[T any, P client.Pointer[T]](change func(*T) *T) Part {
	return partFunc(func(p *parts) error {
		if p.caches.Transforms == nil {
			p.caches.Transforms = map[client.Object]func(client.Object) client.Object{}
		}
		var key client.Object = P(new(T))
		before := func(obj client.Object) client.Object { return obj }
		for other, transform := range p.caches.Transforms {
			if _, same := other.(P); same {
				key, before = other, transform
			}
		}
		p.caches.Transforms[key] = func(obj client.Object) client.Object {
			obj = before(obj)
			if typed, ok := obj.(P); ok {
				return P(change((*T)(typed)))
			}
			return obj // metadata or unstructured
		}
		return nil
	})
}
