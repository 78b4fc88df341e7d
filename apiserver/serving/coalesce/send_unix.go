//go:build unix

package coalesce

import (
	"io"
	"net"
	"syscall"
)

// rawConn returns the system's connection below a connection; nil if there is none.
func rawConn(c net.Conn) syscall.RawConn {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// gone reports whether the peer has closed the connection, or the deadline for reading has passed.
// It does not block.
func gone(raw syscall.RawConn) bool {
	var closed bool
	err := raw.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		closed = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
		return true
	})
	return closed || err != nil
}

// sendAll sends p. It has a turn during each system call, and none while the peer does not accept
// data.
func sendAll(raw syscall.RawConn, p []byte) error {
	var failed error
	err := raw.Write(func(fd uintptr) bool {
		for len(p) > 0 {
			sending <- struct{}{}
			n, err := syscall.Write(int(fd), p)
			<-sending
			switch {
			case err == syscall.EINTR:
			case err == syscall.EAGAIN:
				return false // called again when the peer has accepted data
			case err != nil:
				failed = err
				return true
			case n == 0:
				failed = io.ErrUnexpectedEOF
				return true
			default:
				p = p[n:]
			}
		}
		return true
	})
	if failed != nil {
		return failed
	}
	return err
}
