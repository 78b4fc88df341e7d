package faults

import (
	"context"
	"sync"
	"time"
)

// Rules are the rules of a [Client] or a [Transport], and the calls that it has received.
type Rules struct {
	refused func(Call) string // why a rule for the call could never match; "" if it can

	mu    sync.Mutex
	rules []*Rule
	calls []Call
}

// On adds a rule. Without further calls of its methods, the rule matches and does nothing. It
// panics if a pattern is malformed, or if call has a field that the calls of the Client or
// Transport never have.
func (s *Rules) On(call Call) *Rule {
	r := &Rule{rules: s, on: call, left: -1}
	for _, pattern := range []string{call.Namespace, call.Name, call.Path} {
		like(pattern, "")
	}
	if s.refused != nil {
		if why := s.refused(call); why != "" {
			panic("faults: " + why)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, r)
	return r
}

// Reset removes all rules and forgets the calls. Calls that a rule holds continue.
func (s *Rules) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rules {
		r.release()
	}
	s.rules, s.calls = nil, nil
}

// Calls returns the calls so far, in order.
func (s *Rules) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Rule describes what happens to calls. Its methods return the rule; they may be called at any
// time.
type Rule struct {
	rules *Rules
	on    Call
	err   Error
	after bool
	delay time.Duration
	held  chan struct{} // closed by Release; nil if calls are not held
	left  int           // how many calls it applies to; negative for all
	skip  int
	hits  int
}

// Return fails the calls.
func (r *Rule) Return(err Error) *Rule { return r.set(func() { r.err = err }) }

// After makes Return fail a call after it was executed, or after the event has arrived.
func (r *Rule) After() *Rule { return r.set(func() { r.after = true }) }

// Delay waits before each call.
func (r *Rule) Delay(d time.Duration) *Rule { return r.set(func() { r.delay = d }) }

// Hold makes the calls wait until Release, or until their context ends. An event that waits also
// holds back the later events of its watch.
func (r *Rule) Hold() *Rule {
	return r.set(func() {
		if r.held == nil {
			r.held = make(chan struct{})
		}
	})
}

// Release lets the calls continue that Hold has made wait. Later calls don't wait.
func (r *Rule) Release() *Rule { return r.set(r.release) }

func (r *Rule) release() {
	if r.held != nil {
		close(r.held)
		r.held = nil
	}
}

// Times limits the rule to the next n matching calls; later ones are passed to the rules after it.
func (r *Rule) Times(n int) *Rule { return r.set(func() { r.left = n }) }

// Skip lets the next n matching calls pass to the rules after it.
func (r *Rule) Skip(n int) *Rule { return r.set(func() { r.skip = n }) }

// Hits returns how many calls the rule applied to. A test should check it, so that a rule that
// matches nothing does not go unnoticed.
func (r *Rule) Hits() int {
	r.rules.mu.Lock()
	defer r.rules.mu.Unlock()
	return r.hits
}

func (r *Rule) set(change func()) *Rule {
	r.rules.mu.Lock()
	defer r.rules.mu.Unlock()
	change()
	return r
}

// decide records a call and returns a copy of the rule that applies; the zero Rule if none does.
func (s *Rules) decide(call Call) Rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	for _, r := range s.rules {
		switch {
		case r.left == 0 || !r.on.matches(call):
			continue
		case r.skip > 0:
			r.skip--
			continue
		case r.left > 0:
			r.left--
		}
		r.hits++
		return *r
	}
	return Rule{}
}

// wait delays or holds a call as the rule specifies. It returns the error of ctx if ctx ends first.
func (r *Rule) wait(ctx context.Context) error {
	if r.held != nil {
		select {
		case <-r.held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.delay <= 0 {
		return nil
	}
	timer := time.NewTimer(r.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do executes a call under the rules.
func (s *Rules) do(ctx context.Context, call Call, execute func() error) error {
	r := s.decide(call)
	if err := r.wait(ctx); err != nil {
		return err
	}
	if r.err != nil && !r.after {
		return r.err(call)
	}
	err := execute()
	if r.err != nil && err == nil {
		err = r.err(call)
	}
	return err
}
