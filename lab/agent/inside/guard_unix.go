//go:build unix && kelson_agent

package inside

import (
	"net"
	"strconv"
	"sync"
	"syscall"
	_ "unsafe" // for go:linkname
)

// connect is the function of package net that connects each socket. Only operators are linked with
// it, because the linker needs a flag for this reference.
//
//go:linkname connect net.connectFunc
var connect func(socket int, address syscall.Sockaddr) error

// permitted has the sockets of direct, whose addresses have been checked.
var permitted sync.Map

// permit permits a socket to connect. It is the function Control of direct.
func permit(_, _ string, c syscall.RawConn) error {
	return c.Control(func(socket uintptr) { permitted.Store(int(socket), true) })
}

// guard makes each connection fail that is not allowed, with whatever package and library the
// operator makes it.
func guard() {
	original := connect
	connect = func(socket int, address syscall.Sockaddr) error {
		if _, ok := permitted.LoadAndDelete(socket); ok {
			return original(socket, address)
		}
		host, text := "", ""
		switch a := address.(type) {
		case *syscall.SockaddrInet4:
			host = net.IP(a.Addr[:]).String()
			text = net.JoinHostPort(host, strconv.Itoa(a.Port))
		case *syscall.SockaddrInet6:
			host = net.IP(a.Addr[:]).String()
			text = net.JoinHostPort(host, strconv.Itoa(a.Port))
		case *syscall.SockaddrUnix:
			host, text = a.Name, a.Name
		}
		if allowedAddress(host) {
			return original(socket, address)
		}
		return external(text)
	}
}
