package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/require"
)

func byName(name string) attack {
	return attacks[slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })]
}

// measured returns the measurement of an attack that meets all criteria.
func measured(s side) *measurement {
	latency := func(d time.Duration) *latencies { return &latencies{all: slices.Repeat([]time.Duration{d}, 100)} }
	return &measurement{attack: byName("names"), side: s, baseline: 10 * time.Millisecond,
		tenant: latency(40 * time.Millisecond), probes: latency(5 * time.Millisecond),
		before: 100 << 20, worst: 900 << 20, after: 110 << 20}
}

func TestCriteria(t *testing.T) {
	for _, test := range []struct {
		what   string
		change func(m, other *measurement)
		want   string // part of the only missed criterion; empty: none
	}{
		{"nothing happened", func(m, other *measurement) {}, ""},
		{"a slow probe", func(m, _ *measurement) { m.probes.all[3] = 2 * time.Second }, "a probe took 2s"},
		{"a failed probe", func(m, _ *measurement) {
			m.probes.add(time.Millisecond, errors.New("429"))
		}, "1 of 101 probes failed: 429"},
		{"a failed request", func(m, _ *measurement) {
			m.tenant.add(time.Millisecond, errors.New("429"))
		}, "1 of 101 requests of the tenant failed"},
		{"slow requests", func(m, _ *measurement) {
			m.tenant.all = slices.Repeat([]time.Duration{51 * time.Millisecond}, 100)
		}, "p99 was 51ms, more than 50ms"},
		{"slow requests of a control", func(m, _ *measurement) {
			m.attack.control = true
			m.tenant.all = slices.Repeat([]time.Duration{51 * time.Millisecond}, 100)
		}, ""},
		{"slow requests in a burst", func(m, _ *measurement) {
			m.attack.p99 = burst
			m.tenant.all = slices.Repeat([]time.Duration{burst + time.Millisecond}, 100)
		}, "p99 was 76ms, more than 75ms"},
		{"the peer is faster", func(_, other *measurement) {
			other.tenant.all = slices.Repeat([]time.Duration{15 * time.Millisecond}, 100)
		}, "p99 was 40ms, more than 30ms"},
		{"the peer is faster, as it refuses", func(_, other *measurement) {
			other.tenant = &latencies{all: []time.Duration{time.Millisecond}, failed: 1}
		}, ""},
		{"memory", func(m, _ *measurement) { m.worst = 1200 << 20 }, "memory grew"},
		{"memory that stays", func(m, _ *measurement) { m.after = 150 << 20 }, "memory afterwards"},
		{"memory that a restarted server needs for its state", func(m, _ *measurement) {
			m.attack.fills, m.after = true, 135<<20
		}, ""},
		{"memory that stays, without a restart", func(m, _ *measurement) { m.after = 135 << 20 }, "memory afterwards"},
		{"the server ended", func(m, _ *measurement) {
			m.lost, m.after = errors.New("kelson has ended"), 0
		}, "kelson has ended"},
		{"not measured", func(m, _ *measurement) { m.tenant = nil }, "not measured"},
	} {
		m, other := measured(kelson), measured(peer)
		test.change(m, other)
		missed := m.misses(other)
		if test.want == "" && len(missed) > 0 ||
			test.want != "" && (len(missed) != 1 || !strings.Contains(missed[0], test.want)) {
			t.Errorf("%s: %q, want %q", test.what, missed, test.want)
		}
	}
}

func TestReport(t *testing.T) {
	r := &report{all: []*measurement{measured(kelson), measured(peer)}, seconds: 15}
	r.all[0].worst = 2 << 30
	r.all[1].tenant.failed, r.all[1].guarded = 50, true
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("before\n"+partBegin+"old\n"+partEnd+"after\n"), 0o644))
	for range 2 { // the markers stay
		require.NoError(t, r.writeDocs(page, r.missed()))
	}
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(data)
	for _, want := range []string{
		"before\n" + partBegin, partEnd + "after\n",
		"| " + byName("names").what + " | kelson | 5ms | 0 | 10ms → 40ms | 50ms | 105 MB → 2147 MB → 115 MB |",
		"| kube-apiserver | 5ms | 50.0 % | 10ms → 40ms | – | 105 MB → 944 MB → ended by this program |",
		"- names: memory grew from 105 MB to 2147 MB",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "old") {
		t.Errorf("the previous table remains:\n%s", text)
	}
}

func TestAttacksHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range attacks {
		if a.name == "" || a.what == "" || a.run == nil || seen[a.name] {
			t.Errorf("attack %q: incomplete, or a name that another one has", a.name)
		}
		seen[a.name] = true
	}
	if chosen := chosenBodies(); len(chosen) != len(costly) {
		t.Errorf("%d of %d names are in package bodies", len(chosen), len(costly))
	}
}
