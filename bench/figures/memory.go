package main

import (
	"context"
	"time"
)

// weigh records the resident memory of an idle side.
func (l *life) weigh(ctx context.Context, id string) error {
	if !l.wanted(id, id+"-own") {
		return nil
	}
	if err := l.waitIdle(ctx); err != nil {
		return err
	}
	m, err := l.usage()
	if err != nil {
		return err
	}
	l.heapProfile(ctx, id)
	l.set(id, figure{measured: true, value: float64(m.Resident)})
	l.set(id+"-own", figure{measured: true, value: float64(m.Anonymous)})
	return nil
}

// waitIdle waits until the idle server has released memory.
func (o *options) waitIdle(ctx context.Context) error {
	select {
	case <-time.After(o.idle):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
