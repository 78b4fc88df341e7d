//go:build unix

package http1

import (
	"net"
	"syscall"
)

// isObservable reports whether isQuiet works.
func isObservable(conn net.Conn) bool {
	_, ok := conn.(syscall.Conn)
	return ok
}

// isQuiet reports whether the connection is open and the peer has sent no data.
func isQuiet(conn net.Conn) bool {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && quiet
}
