//go:build !unix

package coalesce

import (
	"net"
	"syscall"
)

func rawConn(net.Conn) syscall.RawConn { return nil }

func sendAll(syscall.RawConn, []byte) error { panic("unreachable") }
