//go:build unix

package serving

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func (s Sharing) set(fd uintptr) error {
	for _, option := range []struct {
		on   bool
		name string
		id   int
	}{{s.Port, "SO_REUSEPORT", unix.SO_REUSEPORT}, {s.Address, "SO_REUSEADDR", unix.SO_REUSEADDR}} {
		if !option.on {
			continue
		}
		if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option.id, 1); err != nil {
			return fmt.Errorf("set %s: %w", option.name, err)
		}
	}
	return nil
}
