package explore

import (
	"testing"
	"time"

	"kelson.dev/internal/assert"
)

// Times of the run are replaced in names and values. Other numbers are not.
func TestTimes(t *testing.T) {
	n := &names{began: time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC)}
	for name, want := range map[string]string{
		"run-946684812": "run-*", "run-946684812345-a": "run-*-a", "job-15778080": "job-*",
		"backup-20000101-000512": "backup-*", "backup-20000101": "backup-*", "b-2000-01-01t00-05-12z": "b-*",
		"r-19991231235959": "r-*", "web-0": "web-0", "shard-12345678": "shard-12345678",
		"build-20261129": "build-20261129",
		"a-9466848123":   "a-9466848123", "x-20001301": "x-20001301", "disk-1577808012": "disk-1577808012",
	} {
		assert.Equalf(t, n.withoutTimes(name), want, "%s becomes", name)
	}
	for text, want := range map[string]bool{"946684812": true, "2000-01-01 00:05:12": true, "2000-01-01T00:05Z": true,
		"15778080": false, "20000101": false, "1000000000": false, "": false, "web": false} {
		assert.Equalf(t, n.isTime(text), want, "%q is a time: %v", text, !want)
	}
}

// The names in which two runs differ in one part have a random part there.
func TestRandomNames(t *testing.T) {
	found := randomNames(
		[]string{"pods default/web-x7k2p-main", "secrets default/web", "secrets default/web-abcd1"},
		[]string{"pods default/web-q9zzz-main", "secrets default/web", "secrets default/api-abcd22"})
	if len(found) != 1 || found[0].as != "web-*-main" {
		t.Fatalf("%v", found)
	}
	n := &names{random: found}
	for name, want := range map[string]string{"web-bbbbb-main": "web-*-main", "web-b-main": "web-b-main",
		"web-bbbbb-other": "web-bbbbb-other"} {
		assert.Equalf(t, n.withoutRandomPart(name), want, "%s becomes", name)
	}
}

// Generated names are replaced, the longest one where several begin.
func TestReplaceGenerated(t *testing.T) {
	n := &names{generated: map[string]string{"web-7d9f": "web-*", "web-7d9f-abcde": "web-*-*", "7d9f": "*", "x1": "x*"}}
	for text, want := range map[string]string{
		"Created Pod web-7d9f-abcde of web-7d9f.": "Created Pod web-*-* of web-*.", "hash=7d9f": "hash=*",
		"web-": "web-", "ax1": "ax*", "web-7d9e": "web-7d9e", "": "",
	} {
		assert.Equalf(t, n.replaceGenerated(text), want, "%q becomes", text)
	}
}

// A curve needs few points to find the step at which a failure becomes inevitable, and curves take
// a share of the time of an exploration.
func TestCurveSearch(t *testing.T) {
	for first := range 13 {
		calls, found := 0, 12
		search(12, func(i int) bool {
			if calls++; i >= first {
				found = min(found, i)
			}
			return i >= first
		})
		if found != first || calls > 6 {
			t.Errorf("from %d on: found %d with %d points", first, found, calls)
		}
	}
	search(0, func(int) bool { panic("no points") })
	for since, want := range map[time.Duration]time.Duration{time.Second: 15 * time.Second,
		5 * time.Minute: 55 * time.Second} {
		if got := curveTime(since, 5*time.Second); got != want {
			t.Errorf("after %v: %v for curves, want %v", since, got, want)
		}
	}
}

func BenchmarkReplaceGenerated(b *testing.B) {
	n := &names{generated: map[string]string{}}
	for i := range 300 {
		name := "web-" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "xyz"
		n.generated[name] = "web-*"
	}
	for b.Loop() {
		n.replaceGenerated("the condition of web-server in namespace default is met")
	}
}
