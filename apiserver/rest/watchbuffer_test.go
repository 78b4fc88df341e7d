package rest

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/util/flowcontrol"
	"kelson.dev/apiserver/internal/watchdog"
	"kelson.dev/internal/assert"
)

// stalledWriter is the ResponseWriter of a client that does not read.
type stalledWriter struct {
	http.ResponseWriter
	ended chan struct{}
	once  sync.Once
}

func (d *stalledWriter) Write([]byte) (int, error) {
	<-d.ended
	return 0, http.ErrHandlerTimeout
}

func (d *stalledWriter) SetWriteDeadline(at time.Time) error {
	if at.Before(time.Now()) {
		d.once.Do(func() { close(d.ended) })
	}
	return nil
}

// signal records when the seats of a watch are released.
type signal struct{ at time.Time }

func (s *signal) Signal() { s.at = time.Now() }
func (s *signal) Wait()   {}

// A watch whose client accepts nothing releases its seats soon, and is ended later.
func TestStalledWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given, start := &signal{}, time.Now()
		req := (&http.Request{}).WithContext(flowcontrol.WithInitializationSignal(context.Background(), given))
		w := newWriting(&stalledWriter{ended: make(chan struct{})}, req, true, start.Add(maxInitial))
		if w.write([]byte("x")) == nil {
			t.Error("written")
		}
		assert.Equalf(t, time.Since(start), stall, "ended after")
		assert.Equalf(t, given.at.Sub(start), watchdog.Patience, "seats were released after")
		w.dog.Stop()
		time.Sleep(time.Hour)

		// Slow initial events do not retain an old state forever.
		start = time.Now()
		w = newWriting(&stalledWriter{ended: make(chan struct{})}, req, false, start.Add(10*time.Second))
		if w.write([]byte("x")) == nil || time.Since(start) != 10*time.Second {
			t.Errorf("ended after %s", time.Since(start))
		}
		w.dog.Stop()
	})
}

// Frames are combined in small buffers, and in large ones while fewer than largeBuffers are in use.
func TestPending(t *testing.T) {
	var all []*pending
	frame := make([]byte, 10<<10)
	for range largeBuffers + 5 {
		p := &pending{}
		all = append(all, p)
		if !p.append(frame) {
			t.Fatal("a small frame does not fit into an empty buffer")
		}
		if got, want := p.append(frame, frame), len(all) <= largeBuffers; got != want {
			t.Errorf("buffer %d: %v, want %v", len(all), got, want)
		}
		if want := 10 << 10; len(p.bytes()) != want && len(all) > largeBuffers {
			t.Errorf("%d bytes, want %d", len(p.bytes()), want)
		}
	}
	for _, p := range all {
		p.release()
		p.release()
		assert.Equalf(t, len(p.bytes()), 0, "a released buffer is not empty")
	}
	p := &pending{}
	if p.append(make([]byte, largeBuffer+1)) || !p.append(make([]byte, largeBuffer)) {
		t.Error("a large buffer does not have the expected size")
	}
	p.release()
	assert.Equalf(t, largeTaken.Load(), 0, "large buffers are taken")
}
