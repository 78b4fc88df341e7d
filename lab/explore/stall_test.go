package explore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/agent/inside"
	"kelson.dev/lab/explore"
)

// An operator can hold a lock while it waits for responses and timers: time passes for goroutines
// that wait for the lock.
func TestHeldLock(t *testing.T) {
	report, err := explore.Explore(t, virtualProgram(t, "CORRECT=yes", "LOCK=held"),
		explore.Options{For: time.Hour, OneFault: true, Plans: 3})
	if err != nil || len(report.Alarms) > 0 || report.Unequal > 0 {
		t.Errorf("%v, %v, %s", err, report.Alarms, report.Difference)
	}
}

// A lock that is locked twice is an alarm without any fault, with the stack.
func TestLockedTwice(t *testing.T) {
	report, err := explore.Explore(t, virtualProgram(t, "CORRECT=yes", "LOCK=own"), explore.Options{For: time.Hour})
	if err != nil || len(report.Alarms) != 1 {
		t.Fatalf("%v, %v", err, report.Alarms)
	}
	a := report.Alarms[0]
	if a.What != "the operator waits for a lock" || !strings.Contains(a.Detail, "main.hold") ||
		!strings.Contains(a.Detail, filepath.Join("testdata", "program", "main.go")) ||
		strings.Contains(a.Detail, "acquire") {
		t.Errorf("%s, want the stack of the goroutine", a)
	}
}

// If time cannot pass, the first run ends with the stacks of the goroutines for which it waits, and
// an interrupt ends it at once.
func TestStandsStill(t *testing.T) {
	s := virtualProgram(t, "LOCK=other", inside.StuckVariable+"=1s")
	_, err := explore.Explore(t, s, explore.Options{For: time.Hour})
	if err == nil || !strings.Contains(err.Error(), inside.StandsStill) ||
		!strings.Contains(err.Error(), "main.hold") || !strings.Contains(err.Error(), "sync.Mutex.Lock") {
		t.Errorf("%v, want that the operator stands still", err)
	}
	file := filepath.Join(t.TempDir(), "waits")
	s.Program.Env = []string{"LOCK=other", inside.StuckVariable + "=1h", "WAITS=" + file}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(file); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, err = explore.ExploreUntil(ctx, t, s, explore.Options{For: time.Hour})
	assert.ErrorIsf(t, err, context.Canceled, "want that the run ends")
}
