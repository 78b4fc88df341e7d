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
		host, port := "", 0
		switch a := address.(type) {
		case *syscall.SockaddrInet4:
			host, port = net.IP(a.Addr[:]).String(), a.Port
		case *syscall.SockaddrInet6:
			host, port = net.IP(a.Addr[:]).String(), a.Port
		case *syscall.SockaddrUnix:
			host = a.Name
		}
		name := allowedName(host)
		text := orDefault(name, host)
		if port > 0 {
			text = net.JoinHostPort(text, strconv.Itoa(port))
		}
		if name == "" {
			return external(text)
		}
		report(Allowed, text)
		return original(socket, address)
	}
}

// addresses has the addresses of the allowed names.
var addresses struct {
	once  sync.Once
	names map[string]string // by address
}

// allowedName returns the name by which the operator may connect to an address: the address itself,
// or a name with this address. It returns "" if the operator may not.
func allowedName(ip string) string {
	if allowed(ip) {
		return ip
	}
	addresses.once.Do(func() {
		addresses.names = map[string]string{}
		for _, name := range strings.Split(os.Getenv(AllowVariable), ",") {
			if name == "" || strings.Contains(name, "/") || net.ParseIP(name) != nil {
				continue
			}
			// fails for a program
			found, _ := net.DefaultResolver.LookupHost(context.Background(), name)
			for _, address := range found {
				addresses.names[address] = name
			}
		}
	})
	return addresses.names[ip]
}
