package agent

import (
	"os"
	"strings"
	"syscall"
	"time"

	"kelson.dev/lab/agent/inside"
)

// The real time after which a process counts as stalled if it has not answered: it waits, and all
// its threads sleep; the same if it may use other systems; and the processor time that it may take
// for one answer.
const (
	stalledAfter   = 15 * time.Second
	stalledAllowed = 2 * time.Minute
	maxComputing   = 3 * time.Minute
)

// watchStalls ends the process if it neither runs nor becomes idle, or if it computes without an
// end. The agent in the process reports most such states itself, but cannot if no goroutine of its
// own gets the processor. It runs in real time, outside of any bubble.
func (p *Process) watchStalls(allowed bool) {
	limit := stalledAfter
	if allowed {
		limit = stalledAllowed
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var s stall
	for {
		select {
		case <-p.ended:
			return
		case now := <-tick.C:
			turn, u := p.turn.Load(), usage{}
			if turn%2 == 1 {
				u = usageOf(p.cmd.Process.Pid)
			}
			s.observe(turn, now, u)
			if reason := s.reason(now, limit); reason != "" {
				p.stalled.Store(&reason)
				// The runtime writes the stacks of all goroutines, and ends the process.
				if p.cmd.Process.Signal(syscall.SIGQUIT) == nil {
					select {
					case <-p.ended:
					case <-time.After(stalledAfter):
					}
				}
				_ = p.cmd.Process.Kill() // an error means that it has ended
				return
			}
		}
	}
}

// stall is how long a process has not answered.
type stall struct {
	turn   uint64
	asleep time.Time     // since then, it has been asleep in the same turn
	used   time.Duration // processor time at the beginning of the turn
	usage  usage
}

// usage describes what a process does. Without known, that is not known.
type usage struct {
	known, asleep bool
	processor     time.Duration
}

// observe takes what the process does now, and the number of its turn: odd while it must answer.
func (s *stall) observe(turn uint64, now time.Time, u usage) {
	s.usage = u
	if turn != s.turn || turn%2 == 0 || !u.known {
		s.turn, s.asleep, s.used = turn, now, u.processor
		return
	}
	if !u.asleep {
		s.asleep = now
	}
}

// reason returns why the process counts as stalled; "" if it does not.
func (s *stall) reason(now time.Time, limit time.Duration) string {
	switch {
	case s.turn%2 == 0 || !s.usage.known:
		return ""
	case now.Sub(s.asleep) > limit:
		return inside.StandsStill
	case s.usage.processor-s.used > maxComputing:
		return "the operator computes for minutes of real time without a pause, so virtual time can't pass"
	}
	return ""
}

// allows reports whether a process may use other systems, for which it waits in real time.
func allows(env []string) bool {
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, inside.AllowVariable+"="); ok && value != "" {
			return true
		}
	}
	return os.Getenv(inside.AllowVariable) != ""
}
