package manager

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// notRebound refuses requests that reach a loopback address under a name of somebody else, and those that a page of another origin makes a
// browser send. It is for what is served without authentication: a web page can have its own name resolve to 127.0.0.1 (DNS rebinding),
// and the browser lets it read the answers. Such a request has that name as its Host.
//
// Requests to other addresses pass: their Host is a name of this pod or its service, which is not known here.
func notRebound(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isLoopback(local) && !ownName(r.Host) {
			http.Error(w, "the Host of a request to a loopback address must be an address or localhost", http.StatusForbidden)
			return
		}
		if err := origins.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// ownName reports whether a Host can't be that of a web site: an address, or a name that browsers resolve to this machine only.
func ownName(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
