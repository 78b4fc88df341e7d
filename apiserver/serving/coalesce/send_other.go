//go:build !unix

package coalesce

import (
	"net"
	"syscall"
)

func rawConn(net.Conn) syscall.RawConn { return nil }

func gone(syscall.RawConn) bool { panic("unreachable") }

func sendAll(syscall.RawConn, []byte) error { panic("unreachable") }
