package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load is the result of several concurrent clients.
type load struct {
	operations int
	took       time.Duration
	p50, p99   time.Duration
	cpu        time.Duration // of the server, per operation
	client     time.Duration // of this process, per operation
}

func (l load) perSecond() float64 { return float64(l.operations) / l.took.Seconds() }

// figure returns a row's value for a load.
func (l load) figure() figure {
	return figure{value: l.perSecond(), cpu: l.cpu, client: l.client, p99: l.p99, measured: true}
}

// errNothing is the error of rows that read objects if none were stored.
var errNothing = errors.New("no objects to read")

// errEnough ends a client's part of a load without an error.
var errEnough = errors.New("nothing left to do")

// drive runs op repeatedly in all clients until the time is over (0: until op returns errEnough).
// It measures after the first tenth of the time.
func (s *server) drive(ctx context.Context, clients []*client, d time.Duration,
	op func(ctx context.Context, c *client, clientNumber int) error) (load, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var all []time.Duration
	// at least one operation; on a busy machine that may take longer than planned
	var measured atomic.Bool
	begin := time.Now()
	measureFrom, until := begin, time.Time{}
	var err error
	cpu, own := [2]time.Duration{}, ownCPU()
	if cpu[0], err = s.cpu(); err != nil {
		return load{}, err
	}
	if d > 0 {
		measureFrom, until = begin.Add(d/10), begin.Add(d+d/10)
		begun := time.AfterFunc(d/10, func() {
			mu.Lock()
			defer mu.Unlock()
			if now, err := s.cpu(); err == nil {
				cpu[0], own = now, ownCPU()
			}
		})
		defer begun.Stop()
	}
	var ended time.Time
	var wg sync.WaitGroup
	for clientNumber, c := range clients {
		wg.Go(func() {
			var mine []time.Duration
			for until.IsZero() || time.Now().Before(until) || !measured.Load() {
				start := time.Now()
				if err := op(ctx, c, clientNumber); errors.Is(err, errEnough) {
					break
				} else if err != nil {
					cancel(err)
					break
				}
				if now := time.Now(); !start.Before(measureFrom) {
					mine = append(mine, now.Sub(start))
					measured.Store(true)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			ended = time.Now()
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return load{}, err
	}
	if len(all) == 0 {
		return load{}, errors.New("no operation was measured")
	}
	if cpu[1], err = s.cpu(); err != nil {
		return load{}, err
	}
	slices.Sort(all)
	return load{
		operations: len(all), took: ended.Sub(measureFrom), cpu: (cpu[1] - cpu[0]) / time.Duration(len(all)),
		client: (ownCPU() - own) / time.Duration(len(all)),
		p50:    all[len(all)/2], p99: all[len(all)*99/100],
	}, nil
}
