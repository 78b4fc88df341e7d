package main

import (
	"fmt"
	"time"
)

// The criteria that kelson must meet during and after every attack.
const (
	probeWithin = time.Second
	// p99Factor limits the tenant's p99 during an attack, as a multiple of its p99 before.
	p99Factor = 5
	// p99Slack is a p99 that is always allowed. The tenant's baseline of two milliseconds is
	// measured on an idle machine, but during an attack, the attacker uses processors of the same
	// machine. p99Slack is five times the tenant's p99 in the attack control-equal, which sends no
	// requests: 4.9 to 6.5 ms in runs on two processors.
	p99Slack = 25 * time.Millisecond
	// peerFactor limits the p99 as a multiple of kube-apiserver's in the same attack, if
	// kube-apiserver's is better and it answered every request.
	peerFactor = 2
	growth     = 1 << 30 // bytes more than before the attack
	// A minute after an attack, the server may use a tenth more memory than before. A restarted
	// server has just read its state, and may use leftover more.
	leftover = 30 << 20
)

// measurement is the result of an attack on a side.
type measurement struct {
	attack attack
	side   side

	baseline       time.Duration // p99
	tenant, probes *latencies
	before, worst  int64   // bytes
	busiest        float64 // processors
	guarded        bool    // -guard ended the server, during or after the attack
	note           string  // the counts of the attacker

	after    int64
	afterCPU float64
	lost     error // why the server ended while it was idle, or the effect of a full disk
}

// misses returns the criteria that a measurement misses. other is the same attack on
// kube-apiserver, or nil.
func (m *measurement) misses(other *measurement) (missed []string) {
	if m.tenant == nil {
		return []string{"not measured"}
	}
	miss := func(format string, args ...any) { missed = append(missed, fmt.Sprintf(format, args...)) }
	if m.guarded {
		miss("memory reached the guard, during the attack (%s) or after it", mb(m.worst))
	}
	if m.probes.failed > 0 && !m.attack.fills { // a server that cannot write is not ready
		miss("%d of %d probes failed: %v", m.probes.failed, m.probes.requests(), m.probes.example)
	}
	if slowest := m.probes.slowest(); slowest > probeWithin {
		miss("a probe took %s", short(slowest))
	}
	if m.tenant.failed > 0 {
		miss("%d of %d requests of the tenant failed: %v", m.tenant.failed, m.tenant.requests(), m.tenant.example)
	}
	if limit := m.p99Limit(other); m.tenant.p99() > limit && !m.attack.control {
		miss("the tenant's p99 was %s, more than %s", short(m.tenant.p99()), short(limit))
	}
	if m.worst-m.before > growth {
		miss("memory grew from %s to %s", mb(m.before), mb(m.worst))
	}
	if m.lost != nil && !m.guarded {
		miss("%v", m.lost)
	}
	limit := m.before + m.before/10
	if m.attack.fills {
		limit += leftover
	}
	if m.after > limit {
		miss("memory afterwards was %s, more than %s", mb(m.after), mb(limit))
	}
	return missed
}

// p99Limit returns the limit of the tenant's p99. Attacks that are controls have no limit: they
// show how much busy processors slow the tenant without any request to the server.
func (m *measurement) p99Limit(other *measurement) time.Duration {
	if m.attack.p99 != 0 {
		return m.attack.p99
	}
	limit := p99Factor * m.baseline
	if other != nil && other.tenant != nil && other.tenant.failed == 0 && !other.guarded {
		limit = min(limit, peerFactor*max(m.baseline, other.tenant.p99()))
	}
	return max(limit, p99Slack)
}

func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func mb(bytes int64) string { return fmt.Sprintf("%d MB", (bytes+500_000)/1_000_000) }
