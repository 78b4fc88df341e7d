// Package trace keeps the account of what an operator does: why each reconcile ran, what it wrote, and what that led to.
//
// # Model
//
// Every reconcile makes one [Record]. Its causes are the events that put the object into the queue, merged and bounded; its writes are
// those that went through a client wrapped by [Tracer.Client]. An event that carries the resourceVersion which an earlier reconcile
// wrote names that reconcile ([Cause].By): so the chain closes, on any API server.
//
//	write of reconcile 7 ──▶ API server ──▶ watch event, same resourceVersion ──▶ cause (By: 7) of reconcile 8
//
// # Use
//
//	tracer := trace.New(trace.JSON(os.Stderr))
//	c = tracer.Client(c)
//	ctx, span := tracer.Start(ctx, trace.Record{Controller: "at", Kind: "At", Request: req, Causes: causes})
//	// … writes through c with ctx …
//	span.End(result, err)
//
// A nil *Tracer keeps no account and costs nothing.
//
// # Concurrency
//
// Everything here is safe for concurrent use. Records reach the sink one at a time, in the order in which the reconciles end.
package trace

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// Record is the account of one reconcile.
type Record struct {
	ID         uint64            // counts the reconciles of the process, from 1
	Time       time.Time         // of the beginning
	Controller string            // its name
	Kind       string            // of the object reconciled
	Request    reconcile.Request // the object's name
	Causes     Causes
	Writes     []Write
	Result     reconcile.Result
	Err        error
	Duration   time.Duration
}

// Write is one write to the API server that a reconcile made.
type Write struct {
	Verb            string // create, update, patch, apply, delete or deletecollection
	Subresource     string
	Kind            string
	Key             client.Key
	ResourceVersion string // that the write resulted in; empty if it failed
	Changed         bool   // false: the server found everything as it should be. True where that is not known.
	Err             error
}

// Sink takes records. It must be quick, and must not keep the slices.
type Sink interface {
	Reconciled(Record)
}

// Func is a function as a Sink.
type Func func(Record)

// Reconciled calls f.
func (f Func) Reconciled(r Record) { f(r) }

// Tee gives each record to several sinks.
func Tee(sinks ...Sink) Sink {
	return Func(func(r Record) {
		for _, s := range sinks {
			s.Reconciled(r)
		}
	})
}

// Tracer makes records. A nil Tracer makes none.
type Tracer struct {
	sink   Sink
	ids    atomic.Uint64
	sinkMu sync.Mutex
	known  versions
}

// New makes a tracer that gives its records to sink; nil if there is none.
func New(sink Sink) *Tracer {
	if sink == nil {
		return nil
	}
	return &Tracer{sink: sink}
}

// Span is a reconcile under way.
type Span struct {
	tracer *Tracer
	mu     sync.Mutex
	record Record
	ended  bool
}

type spanKey struct{}

// Start begins the account of a reconcile; r says which. Writes made with the context it returns belong to it.
func (t *Tracer) Start(ctx context.Context, r Record) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	r.ID, r.Time = t.ids.Add(1), time.Now()
	s := &Span{tracer: t, record: r}
	return context.WithValue(ctx, spanKey{}, s), s
}

// End closes the account and gives it to the sink.
func (s *Span) End(result reconcile.Result, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	r := s.record
	s.mu.Unlock()
	r.Result, r.Err, r.Duration = result, err, time.Since(r.Time)
	// Only now: the event of a write can arrive before the answer to it, and is then a cause before its writer is known.
	r.Causes = s.tracer.known.resolve(r.Causes)
	s.tracer.sinkMu.Lock()
	defer s.tracer.sinkMu.Unlock()
	s.tracer.sink.Reconciled(r)
}

// ID is the number of the reconcile under way; 0 outside of one.
func ID(ctx context.Context) uint64 {
	if s, ok := ctx.Value(spanKey{}).(*Span); ok {
		return s.record.ID
	}
	return 0
}

// maxWrites bounds what is kept of a reconcile that writes without end.
const maxWrites = 1000

func (s *Span) note(w Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && len(s.record.Writes) < maxWrites {
		s.record.Writes = append(s.record.Writes, w)
	}
}
