//go:build !windows

package agent

// handle converts a file descriptor for package syscall.
func handle(fd uintptr) int { return int(fd) }
