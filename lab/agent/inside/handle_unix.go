//go:build !linux && !windows

package inside

func handle(fd int) int { return fd }
