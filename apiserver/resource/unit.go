package resource

import (
	"context"

	"kelson.dev/apiserver/store"
)

// Unit is one write with what must be committed together with it. The verbs carry one in the context of admission:
//
//	if unit := resource.UnitOf(ctx); unit != nil {
//		unit.Join(func(ctx context.Context) (ops []store.Op, done func(), err error) { … })
//	}
//
// A Unit is for one goroutine.
type Unit struct{ joined []Joiner }

// Joiner says what to commit together with a write, from the newest state: it is asked again when that has changed meanwhile. An error
// refuses the write. done, if not nil, is called when the commit was tried, whatever came of it. A dry run does not ask.
type Joiner func(ctx context.Context) (ops []store.Op, done func(), err error)

type unitKey struct{}

// WithUnit gives a context with a new unit.
func WithUnit(ctx context.Context) (context.Context, *Unit) {
	u := &Unit{}
	return context.WithValue(ctx, unitKey{}, u), u
}

// UnitOf is the unit of the write that a context belongs to; nil where nothing is stored.
func UnitOf(ctx context.Context) *Unit {
	u, _ := ctx.Value(unitKey{}).(*Unit)
	return u
}

// Join adds a joiner.
func (u *Unit) Join(j Joiner) { u.joined = append(u.joined, j) }

// Ops asks the joiners. done is never nil and must be called.
func (u *Unit) Ops(ctx context.Context) (ops []store.Op, done func(), err error) {
	if u == nil || len(u.joined) == 0 {
		return nil, func() {}, nil
	}
	var ends []func()
	done = func() {
		for _, end := range ends {
			end()
		}
	}
	for _, join := range u.joined {
		more, end, err := join(ctx)
		if end != nil {
			ends = append(ends, end)
		}
		if err != nil {
			return nil, done, err
		}
		ops = append(ops, more...)
	}
	return ops, done, nil
}
