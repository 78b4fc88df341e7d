// Package plans keeps what is worked out once for each Go type: types do not change.
package plans

import (
	"reflect"
	"sync"
)

// Plans has a plan for each type that was asked for, and for those that these consist of. The zero value is ready, and safe for concurrent use.
type Plans[P any] struct {
	mu    sync.Mutex
	known sync.Map // reflect.Type → *P
}

// Of is the plan of a type. If there is none yet, it is made, with those that it refers to: work puts each into making before it goes
// on with what the type consists of, since a type may contain itself, and asks Known for those of before.
func (p *Plans[P]) Of(t reflect.Type, work func(t reflect.Type, making map[reflect.Type]*P) *P) *P {
	if known := p.Known(t); known != nil {
		return known
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	making := map[reflect.Type]*P{}
	made := work(t, making)
	for t, one := range making { // only now, when all that they refer to is there
		p.known.Store(t, one)
	}
	return made
}

// Known is the plan of a type; nil if there is none yet.
func (p *Plans[P]) Known(t reflect.Type) *P {
	known, ok := p.known.Load(t)
	if !ok {
		return nil
	}
	return known.(*P)
}
