package inside

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Mutex replaces sync.Mutex in the operator's own packages, and in others that hold a mutex while
// they wait for the control plane. Virtual time cannot pass while a goroutine waits for a
// sync.Mutex, so the holder would wait for ever if it needs a timer. A goroutine that waits for
// this Mutex sleeps, so time passes.
type Mutex struct{ inner sync.Mutex }

// Lock implements sync.Locker.
func (m *Mutex) Lock() { acquire(m.inner.TryLock) }

// TryLock does the same as that of sync.Mutex.
func (m *Mutex) TryLock() bool { return m.inner.TryLock() }

// Unlock implements sync.Locker.
func (m *Mutex) Unlock() { m.inner.Unlock() }

// RWMutex replaces sync.RWMutex, as Mutex replaces sync.Mutex.
type RWMutex struct {
	inner sync.RWMutex
	// writers is the number of goroutines that wait for the lock. New readers come after them, as
	// with sync.RWMutex.
	writers int32
}

// Lock implements sync.Locker.
func (m *RWMutex) Lock() {
	if m.inner.TryLock() {
		return
	}
	atomic.AddInt32(&m.writers, 1)
	acquire(m.inner.TryLock)
	atomic.AddInt32(&m.writers, -1)
}

// TryLock does the same as that of sync.RWMutex.
func (m *RWMutex) TryLock() bool { return m.inner.TryLock() }

// Unlock implements sync.Locker.
func (m *RWMutex) Unlock() { m.inner.Unlock() }

// RLock does the same as that of sync.RWMutex.
func (m *RWMutex) RLock() {
	acquire(func() bool { return atomic.LoadInt32(&m.writers) == 0 && m.inner.TryRLock() })
}

// TryRLock does the same as that of sync.RWMutex.
func (m *RWMutex) TryRLock() bool { return m.inner.TryRLock() }

// RUnlock does the same as that of sync.RWMutex.
func (m *RWMutex) RUnlock() { m.inner.RUnlock() }

// RLocker does the same as that of sync.RWMutex.
func (m *RWMutex) RLocker() sync.Locker { return readers{m} }

type readers struct{ m *RWMutex }

func (r readers) Lock()   { r.m.RLock() }
func (r readers) Unlock() { r.m.RUnlock() }

// The first and the longest pause between two attempts to get a lock, and the time after which a
// goroutine that waits is reported.
const (
	firstPause   = 10 * time.Microsecond
	longestPause = time.Second
	longWait     = 4 * time.Minute
)

// acquire waits until try succeeds.
func acquire(try func() bool) {
	for i := 0; i < 3; i++ {
		if try() {
			return
		}
		runtime.Gosched()
	}
	began, reported := time.Now(), false
	for pause := firstPause; !try(); pause = shorter(2*pause, longestPause) {
		time.Sleep(pause)
		if !reported && time.Since(began) > longWait {
			reported = true
			report(Waits, callers())
		}
	}
}

// callers returns the stack of a goroutine that waits for a lock, without addresses, which differ
// between equal runs, and without functions of this package.
func callers() string {
	const most = 24
	pcs := make([]uintptr, most)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)]) // 3: this function and acquire
	var b strings.Builder
	for {
		frame, more := frames.Next()
		if !strings.Contains(frame.Function, "agent.(*Mutex)") &&
			!strings.Contains(frame.Function, "agent.(*RWMutex)") {
			fmt.Fprintf(&b, "%s\n\t%s:%d\n", frame.Function, frame.File, frame.Line)
		}
		if !more {
			return strings.TrimSpace(b.String())
		}
	}
}

func shorter(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}
