package main

import (
	"context"
	"time"
)

// weigh leaves the side alone for a while and notes what it has resident.
func (l *life) weigh(ctx context.Context, id string) error {
	if !l.wanted(id, id+"-own") {
		return nil
	}
	select {
	case <-time.After(l.idle):
	case <-ctx.Done():
		return ctx.Err()
	}
	m, err := l.memory()
	if err != nil {
		return err
	}
	l.heapProfile(ctx, id)
	l.set(id, figure{measured: true, value: float64(m.resident)})
	l.set(id+"-own", figure{measured: true, value: float64(m.anonymous)})
	return nil
}
