// Package clocks simulates changes of the machine's clock, for tests.
//
// A [time.Time] of a running process has two readings: of the wall clock, which an administrator
// can set, and of the monotonic clock. Code that measures how much time has passed must compare
// monotonic readings, because wall clock readings are wrong after the clock was set.
package clocks

import (
	"fmt"
	"time"
	"unsafe"
)

// Set returns t with its wall clock reading changed by by, and its monotonic reading unchanged.
// It is how a time looks that was read before the clock was set by -by. It panics if t has no
// monotonic reading. by must be a multiple of a second.
func Set(t time.Time, by time.Duration) time.Time {
	// The layout of time.Time with a monotonic reading: 1 bit that is set, 33 bits of seconds since
	// 1885, and 30 bits of nanoseconds.
	shifted := t
	wall := (*uint64)(unsafe.Pointer(&shifted))
	*wall += uint64(by/time.Second) << 30
	if shifted.Sub(t) != 0 || shifted.Round(0).Sub(t.Round(0)) != by {
		panic(fmt.Sprintf("set the clock of %v by %v: unknown layout or no monotonic reading", t, by))
	}
	return shifted
}
