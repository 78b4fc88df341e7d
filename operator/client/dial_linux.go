package client

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7).
const tcpUserTimeout = 18

// limitUnacknowledged closes a connection if sent data is not acknowledged in time. Keepalive
// probes don't cover this: the kernel sends none while data is in flight.
func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	// Kernels without the option ignore it.
	return c.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(deadAfter.Milliseconds()))
	})
}
