package process

import (
	"math"

	"golang.org/x/sys/unix"
)

// withholdDescriptors makes sure that processes started from now on inherit none of this process's
// file descriptors. Go sets the close-on-exec flag of the descriptors that it opens, but not of
// those that this process inherited, such as the 7 of a shell's 7</. A directory among them would
// lead out of a pod's root directory. Descriptors that exec.Cmd passes on are not affected.
func withholdDescriptors() error {
	if unix.CloseRange(firstInherited, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	return markDescriptors("/proc/self/fd") // kernels before 5.11, and filters of system calls
}
