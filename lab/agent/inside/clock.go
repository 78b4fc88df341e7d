package inside

import (
	"errors"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// Clock finds the time of the next timer in a bubble, so that another process can run until then
// without passing an event of this one.
//
// testing/synctest does not offer this. Each time.Timer has a pointer to the timers of its bubble,
// which contain the earliest time, and Clock reads it. The positions are those of Go 1.26. NewClock
// checks them with timers of known times, so with another version of Go it returns an error instead
// of wrong times.
type Clock struct {
	probe  *time.Timer // keeps the pointer valid
	timers unsafe.Pointer
}

// The positions in runtime.timeTimer and runtime.timers.
const (
	timersInTimer = 88
	minWhenHeap   = 48
	minModified   = 56
)

// NewClock returns the clock of the bubble in which it is called. Its methods must be called while
// all other goroutines of the bubble are blocked, with GOMAXPROCS=1.
func NewClock() (*Clock, error) {
	if !strings.HasPrefix(runtime.Version(), "go1.26") {
		return nil, errClock // the positions may be those of other data
	}
	// A timer with a function is always among the timers of its bubble.
	c := &Clock{probe: time.AfterFunc(1000*time.Hour, func() {})}
	c.timers = *(*unsafe.Pointer)(at(unsafe.Pointer(c.probe), timersInTimer))
	if c.timers == nil {
		return nil, errClock
	}
	for _, d := range []time.Duration{7 * time.Nanosecond, 3 * time.Nanosecond} {
		timer := time.AfterFunc(d, func() {})
		next, known := c.Next()
		timer.Stop()
		if !known || time.Until(next) != d {
			return nil, errClock
		}
	}
	return c, nil
}

// at returns the address at an offset. unsafe.Add needs Go 1.17.
func at(p unsafe.Pointer, offset uintptr) unsafe.Pointer { return unsafe.Pointer(uintptr(p) + offset) }

var errClock = errors.New("the timers of this version of Go are not known: build kelson with the version in its go.mod")

// Next returns the time at which the next timer of the bubble fires, or an earlier time if a timer
// was stopped. Without timers, it returns false.
func (c *Clock) Next() (time.Time, bool) {
	first := int64(0)
	for _, position := range []uintptr{minWhenHeap, minModified} {
		if t := *(*int64)(at(c.timers, position)); t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return time.Unix(0, first), first != 0
}

// Stop stops the timer of the clock.
func (c *Clock) Stop() { c.probe.Stop() }
