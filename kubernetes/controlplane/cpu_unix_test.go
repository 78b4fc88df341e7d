//go:build unix

package controlplane_test

import (
	"syscall"
	"time"
)

// cpu returns the process's CPU time.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
