package resource

import (
	"context"

	"kelson.dev/apiserver/store"
)

// Unit collects operations that must be committed atomically with one write. The verbs pass one in
// the context of admission:
//
//	if unit := resource.UnitOf(ctx); unit != nil {
//		unit.Join(func(ctx context.Context) (ops []store.Op, done func(), err error) { … })
//	}
//
// A Unit must not be used concurrently.
type Unit struct{ joined []Joiner }

// Joiner returns operations to commit with a write, computed from the newest state. It is called
// again if the state changed before the commit. An error rejects the write. done, if not nil, is
// called after the commit was attempted, whether or not it succeeded. A dry run does not call
// joiners.
type Joiner func(ctx context.Context) (ops []store.Op, done func(), err error)

type unitKey struct{}

// WithUnit returns a context with a new unit.
func WithUnit(ctx context.Context) (context.Context, *Unit) {
	u := &Unit{}
	return context.WithValue(ctx, unitKey{}, u), u
}

// UnitOf returns the unit of the write that a context belongs to, or nil if nothing is stored.
func UnitOf(ctx context.Context) *Unit {
	u, _ := ctx.Value(unitKey{}).(*Unit)
	return u
}

// Join adds a joiner.
func (u *Unit) Join(j Joiner) { u.joined = append(u.joined, j) }

// Ops calls the joiners and returns their operations. done is never nil and must be called.
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
