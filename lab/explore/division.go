package explore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"kelson.dev/lab/agent"
)

// Share is a process that calls DriveShare.
type Share struct {
	// In and Out are the other ends of the pipes of DriveShare.
	In  io.WriteCloser
	Out io.Reader
	// Wait waits until the process has ended, after In was closed. The error is nil if it has ended
	// by itself, with exit code 0.
	Wait func() error
}

// DriveShares explores a scenario as DriveProgram does, in several processes. Start starts one of
// them; the numbers count from 0. No two calls of send happen at the same time.
func DriveShares(ctx context.Context, processes int, start func(number int) (Share, error), o Options,
	send func(Message)) {
	d := &division{options: o, begin: time.Now(), claimed: map[string]bool{}, states: map[string]bool{},
		alarms: &campaign{signatures: map[string]bool{}}}
	o.sendProgress(send)
	d.alarms.options.Found, d.progress = o.Found, o.Progress
	if err := d.run(ctx, processes, start); err != nil {
		send(Message{Kind: "error", Text: err.Error()})
		return
	}
	send(d.report().message("done"))
}

// division divides the plans of an exploration among shares.
type division struct {
	options  Options
	begin    time.Time
	progress func(Report)

	mu      sync.Mutex
	shares  []*dividedShare
	plans   []string        // with one fault, of all shares
	claimed map[string]bool // those that a share has begun
	states  map[string]bool
	alarms  *campaign // has the alarms of all shares that were reported
	found   []foundAlarm
	waiting []foundAlarm // those in found that were not yet reported, in the order of their plans
	over    bool
	err     error // the first of a share
}

// foundAlarm is an alarm, and the share that has found it.
type foundAlarm struct {
	by    *dividedShare
	plan  int // its index in division.plans; last if it has several faults
	alarm sharedAlarm
}

// last is an index after those of all plans with one fault.
const last = math.MaxInt

// dividedShare holds the state of a share.
type dividedShare struct {
	Share
	first  *Report // after the runs without faults
	last   Report
	plans  []string
	next   int // the plans before were begun by a share
	runs   int // the index in division.plans of the plan that the share runs; last for none
	told   int // number of division.found that were sent or are its own
	ended  bool
	answer *json.Encoder
}

// run starts the shares, and returns when all have ended.
func (d *division) run(ctx context.Context, processes int, start func(int) (Share, error)) error {
	var all sync.WaitGroup
	defer all.Wait()
	for number := range processes {
		p, err := start(number)
		if err != nil {
			d.fail(err)
			break
		}
		s := &dividedShare{Share: p, runs: last, answer: json.NewEncoder(p.In)}
		d.mu.Lock()
		d.shares = append(d.shares, s)
		d.mu.Unlock()
		all.Go(func() { d.serve(s) })
	}
	stop := context.AfterFunc(ctx, func() { d.fail(ctx.Err()) })
	defer stop()
	all.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reportAlarms()
	return d.err
}

// fail ends the exploration with an error.
func (d *division) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
	d.over = true
	for _, s := range d.shares {
		s.In.Close() // then the share ends
	}
}

// serve takes the messages of a share until it ends.
func (d *division) serve(s *dividedShare) {
	decoder := json.NewDecoder(s.Out)
	for {
		var m fromShare
		if err := decoder.Decode(&m); err != nil {
			break
		}
		if m.Kind == "error" {
			d.fail(errors.New(m.Text))
			continue
		}
		d.take(s, m)
	}
	s.In.Close()
	err := s.Wait()
	d.mu.Lock()
	ended := s.ended || d.err != nil
	s.runs = last
	d.mu.Unlock()
	if !ended {
		d.fail(fmt.Errorf("a process of the exploration has ended early: %w", withExit(err)))
	}
}

// withExit returns an error also if a process has ended with exit code 0.
func withExit(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}

// take takes a message of a share, and answers its question.
func (d *division) take(s *dividedShare, m fromShare) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, state := range m.States {
		d.states[string(state)] = true
	}
	if m.Report != nil {
		s.last = *m.Report
	}
	switch m.Kind {
	case "begin":
		s.first, s.plans = m.Report, m.Plans
		for _, p := range m.Plans {
			if !slices.Contains(d.plans, p) {
				d.plans = append(d.plans, p)
			}
		}
	case "alarm":
		found := foundAlarm{s, s.runs, *m.Shared}
		if s.first == nil {
			found.plan = -1 // of the runs without faults
		}
		d.waiting = append(d.waiting, found)
		slices.SortStableFunc(d.waiting, func(a, b foundAlarm) int { return cmp.Compare(a.plan, b.plan) })
		found.alarm = found.alarm.withoutRuns()
		d.found = append(d.found, found)
		d.over = d.over || d.options.UntilAlarm
	case "next":
		s.runs = last
		d.reportAlarms()
		if d.progress != nil {
			d.progress(d.report())
		}
		_ = s.answer.Encode(d.next(s)) // an error means that the share has ended
	case "done":
		s.ended, s.runs = true, last
		d.reportAlarms()
	}
}

// reportAlarms reports the alarms of all plans that come before those which run, in the order of
// the plans, as a single process does: of plans that show the same bug, the first one is reported.
func (d *division) reportAlarms() {
	running := last
	for _, s := range d.shares {
		running = min(running, s.runs)
	}
	for len(d.waiting) > 0 && (d.waiting[0].plan < running || running == last) {
		if a := d.waiting[0].alarm.alarm(); !d.alarms.signatures[a.signature()] {
			d.alarms.add(a)
		}
		d.waiting = d.waiting[1:]
	}
}

// next chooses the next plan of a share.
func (d *division) next(s *dividedShare) toShare {
	answer := toShare{Plan: -1, Over: d.over}
	for _, f := range d.found[s.told:] {
		if f.by != s {
			answer.Alarms = append(answer.Alarms, f.alarm)
		}
	}
	s.told = len(d.found)
	for ; s.next < len(s.plans) && !d.over; s.next++ {
		if plan := s.plans[s.next]; !d.claimed[plan] {
			d.claimed[plan] = true
			answer.Plan, s.runs = s.next, slices.Index(d.plans, plan)
			break
		}
	}
	return answer
}

// first returns what the runs without faults have shown to the first share that has ended them.
func (d *division) first() Report {
	for _, s := range d.shares {
		if s.first != nil {
			return *s.first
		}
	}
	for _, s := range d.shares {
		if s.ended { // these runs raised alarms, so no plan was run
			return s.last
		}
	}
	return Report{}
}

// report joins the reports of the shares.
func (d *division) report() Report {
	r := d.first()
	r.NotTried = slices.Clone(r.NotTried)
	r.External = nil
	for _, s := range d.shares {
		r.Unanswered = append(r.Unanswered, s.last.Unanswered...)
		for _, e := range s.last.External {
			r.External = agent.AddExternal(r.External, e)
		}
		if s.first == nil {
			continue
		}
		r.Plans += s.last.Plans - s.first.Plans
		r.Equal += s.last.Equal - s.first.Equal
		r.Pruned += s.last.Pruned - s.first.Pruned
		for _, n := range s.last.NotTried {
			plans, known := n.Plans, false
			for _, earlier := range s.first.NotTried {
				if earlier.Kind == n.Kind && earlier.Reason == n.Reason {
					plans, known = n.Plans-earlier.Plans, true
				}
			}
			if plans > 0 || !known {
				r.addNotTried(n.Kind, n.Reason, plans)
			}
		}
	}
	slices.Sort(r.Unanswered)
	r.Unanswered = slices.Compact(r.Unanswered)
	sortExternal(r.External)
	if len(d.plans) > 0 {
		r.Left = len(d.plans) - len(d.claimed)
	}
	r.States, r.Alarms, r.Took = len(d.states), d.alarms.report.Alarms, time.Since(d.begin)
	return r
}
