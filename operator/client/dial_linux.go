package client

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7).
const tcpUserTimeout = 18

// limitUnacknowledged has a connection end when what was sent over it is not acknowledged in time. Probes don't help there: there are
// none while something is under way.
func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	// A kernel that doesn't know the option goes on without it.
	return c.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(deadAfter.Milliseconds()))
	})
}
