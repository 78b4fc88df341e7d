//go:build unix

package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// firstInherited is the lowest file descriptor that is not a standard stream.
const firstInherited = 3

// markDescriptors sets the close-on-exec flag of the descriptors in dir, which lists those of this
// process.
func markDescriptors(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list this process's file descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= firstInherited {
			syscall.CloseOnExec(fd) // fails only if it was closed since
		}
	}
	return nil
}
