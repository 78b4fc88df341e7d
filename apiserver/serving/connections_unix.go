//go:build unix

package serving

import "golang.org/x/sys/unix"

// maxFiles returns the limit of open files of the process. ok is false if the process has no limit.
func maxFiles() (n int, ok bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 0, false
	}
	return int(limit.Cur), true
}
