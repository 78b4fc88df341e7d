// Package typecache caches data that is computed once per Go type.
package typecache

import (
	"reflect"
	"sync"
)

// Cache has a P for each requested type, and for the types that it refers to. The zero value is
// ready for use. It is safe for concurrent use.
type Cache[P any] struct {
	mu    sync.Mutex
	known sync.Map // reflect.Type → *P
}

// Of returns the P of a type. If it is missing, work computes it and the values of the types to
// which it refers. work must add each P to making before it descends into the type, because types
// can contain themselves, and must use Known for types of earlier calls.
func (p *Cache[P]) Of(t reflect.Type, work func(t reflect.Type, making map[reflect.Type]*P) *P) *P {
	if known := p.Known(t); known != nil {
		return known
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	making := map[reflect.Type]*P{}
	result := work(t, making)
	for t, one := range making { // published only now, because they refer to each other
		p.known.Store(t, one)
	}
	return result
}

// Known returns the P of a type; nil if there is none yet.
func (p *Cache[P]) Known(t reflect.Type) *P {
	known, ok := p.known.Load(t)
	if !ok {
		return nil
	}
	return known.(*P)
}
