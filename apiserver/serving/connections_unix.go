//go:build unix

package serving

import "golang.org/x/sys/unix"

// maxFiles returns how many files the process may open; ok is false if there is no limit.
func maxFiles() (n int, ok bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 0, false
	}
	return int(limit.Cur), true
}
