//go:build unix && kelson_agent

package inside

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
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

// addresses has the addresses of the allowed names.
var addresses struct {
	once  sync.Once
	known map[string]bool
}

// allowedAddress reports whether the operator may connect to an address, or to a name with this
// address.
func allowedAddress(ip string) bool {
	if allowed(ip) {
		return true
	}
	addresses.once.Do(func() {
		addresses.known = map[string]bool{}
		for _, name := range strings.Split(os.Getenv(AllowVariable), ",") {
			if name == "" || strings.Contains(name, "/") || net.ParseIP(name) != nil {
				continue
			}
			// fails for a program
			found, _ := net.DefaultResolver.LookupHost(context.Background(), name)
			for _, address := range found {
				addresses.known[address] = true
			}
		}
	})
	return addresses.known[ip]
}
