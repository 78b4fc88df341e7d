package operator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/events"
)

// collector is a sink that keeps the messages.
type collector struct {
	mu   sync.Mutex
	got  []string
	slow time.Duration
}

func (c *collector) Write(ctx context.Context, e *corev1.Event) error {
	select {
	case <-time.After(c.slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, e.Message)
	return nil
}

func (c *collector) messages() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// Several sinks get the events, each at its own pace; only the server has limits.
func TestSinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startEvents(t, events.Config{FlushTimeout: time.Hour})
		fast, slow := &collector{}, &collector{slow: time.Minute}
		f.Add(fast)
		f.Add(slow)
		// stops no other
		f.Add(events.SinkFunc(func(context.Context, *corev1.Event) error { return errors.New("no") }))
		var want []string
		for n := range 30 {
			f.Event(pod("a"), "Normal", "R", fmt.Sprint(n))
			want = append(want, fmt.Sprint(n))
		}
		synctest.Wait()
		assert.Slicef(t, fast.messages(), want, "the fast sink")
		assert.Lenf(t, slow.messages(), 0, "the slow sink")
		if got := f.lines(); len(got) != 11 {
			t.Errorf("the server has %d events, want 11: %q", len(got), got)
		}
		f.stop()
		assert.Slicef(t, slow.messages(), want, "the slow sink")
	})
}

// Sinks are added and removed while the broadcaster runs.
func TestAddAndRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startEvents(t, events.Config{})
		first, second := &collector{}, &collector{}
		remove := f.Add(first)
		f.Event(pod("a"), "Normal", "R", "1")
		synctest.Wait()
		remove()
		remove()
		f.Add(second)
		f.Event(pod("a"), "Normal", "R", "2")
		f.stop()
		if a, b := first.messages(), second.messages(); !slices.Equal(a, []string{"1"}) ||
			!slices.Equal(b, []string{"2"}) {
			t.Errorf("got %q and %q", a, b)
		}
		assert.Equalf(t, f.Dropped(), 0, "were dropped")
	})
}

// Without the server, to a log only.
func TestToLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		f := startEvents(t, events.Config{Sinks: []events.Sink{events.ToLog(log)}})
		f.Event(pod("a"), "Warning", "Failed", "no room")
		f.stop()
		want := `level=WARN msg="no room" event=Failed component=tester kind=Pod namespace=default name=a`
		assert.Containsf(t, text.String(), want, "logged")
		assert.Lenf(t, f.lines(), 0, "the server")
	})
}

// A sink that never returns ends with the flush.
func TestFlushTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startEvents(t, events.Config{FlushTimeout: time.Second})
		stuck := &collector{slow: 24 * time.Hour}
		f.Add(stuck)
		f.Event(pod("a"), "Normal", "R", "1")
		f.Event(pod("a"), "Normal", "R", "2")
		begin := time.Now()
		f.stop()
		assert.Equalf(t, time.Since(begin), time.Second, "it ended after")
	})
}
