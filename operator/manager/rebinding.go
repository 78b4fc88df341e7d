package manager

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// rejectRebinding rejects requests to a loopback address with a foreign host name, and cross-origin
// requests of browsers. It protects servers without authentication from DNS rebinding: a web page
// can resolve its own host name to 127.0.0.1, and the browser then lets it read the responses. Such
// requests have that name in their Host header.
//
// Requests to other addresses pass: their Host is a name of this pod or its service, which is not
// known here.
func rejectRebinding(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isLoopback(local) &&
			!ownName(r.Host) {
			http.Error(w, "the Host of a request to a loopback address must be an address or localhost",
				http.StatusForbidden)
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

// ownName reports whether a Host can't be a web site: it is an IP address, or a name that browsers
// resolve only to this machine.
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
