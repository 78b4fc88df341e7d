package operator

import (
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Namespaces are those that the operator reads from and watches; by default all. Kinds without a namespace are read as a whole.
func Namespaces(names ...string) Part {
	return partFunc(func(p *parts) error {
		p.caches.Scope.Namespaces = names
		return nil
	})
}

// Cache says which objects of kind T the operator keeps, in place of all (or those of Namespaces), and in which form. What it does not
// keep it does not see: its client reads past the cache only outside of the namespaces of the scope.
func Cache[T any, P client.Pointer[T]](scope informer.Scope, form ...informer.Form) Part {
	return partFunc(func(p *parts) error {
		obj := P(new(T))
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

// Transform changes each object of kind T before it is kept, to keep less of it. It may change and return its argument, but neither its
// name nor its resourceVersion.
func Transform[T any, P client.Pointer[T]](change func(*T) *T) Part {
	return partFunc(func(p *parts) error {
		before := p.caches.Transform
		p.caches.Transform = func(obj client.Object) client.Object {
			if before != nil {
				obj = before(obj)
			}
			if typed, ok := obj.(P); ok {
				return P(change((*T)(typed)))
			}
			return obj
		}
		return nil
	})
}
