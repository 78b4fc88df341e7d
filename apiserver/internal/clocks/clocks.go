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

// Set returns t with d added to its wall clock reading, and its monotonic reading unchanged. The
// result is like a time that was read before an administrator set the clock back by d. Set panics
// if t has no monotonic reading. d must be a multiple of a second.
func Set(t time.Time, d time.Duration) time.Time {
	// The layout of time.Time with a monotonic reading: 1 bit that is set, 33 bits of seconds since
	// 1885, and 30 bits of nanoseconds.
	shifted := t
	wall := (*uint64)(unsafe.Pointer(&shifted))
	*wall += uint64(d/time.Second) << 30
	if shifted.Sub(t) != 0 || shifted.Round(0).Sub(t.Round(0)) != d {
		panic(fmt.Sprintf("change the wall clock reading of %v by %v: unknown layout or no monotonic reading", t, d))
	}
	return shifted
}
