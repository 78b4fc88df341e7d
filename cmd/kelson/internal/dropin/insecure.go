package dropin

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/filters"
)

// insecurePort are the flags of kube-apiserver's port without TLS and authentication, which
// Kubernetes 1.24 removed. Suites with controller-runtime v0.8 and earlier only use this port.
type insecurePort struct {
	port    int
	address string
}

// addFlags registers the flags. They are hidden, because newer versions of envtest read the help
// and turn the port off if it is listed.
func (o *insecurePort) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.port, "insecure-port", 0, "port of this machine without TLS and authentication; 0: none")
	f.StringVar(&o.address, "insecure-bind-address", "127.0.0.1", "loopback address of the insecure port")
	for _, name := range []string{"insecure-port", "insecure-bind-address"} {
		f.Lookup(name).Hidden = true
	}
}

// listen opens the port, and returns nil if the flags name none. Requests to it have administrator
// rights, so only this machine may reach it.
func (o *insecurePort) listen() (net.Listener, error) {
	if o.port == 0 {
		return nil, nil
	}
	if ip := net.ParseIP(o.address); o.address != "localhost" && !ip.IsLoopback() {
		return nil, fmt.Errorf("--insecure-bind-address %q: must be a loopback address", o.address)
	}
	return net.Listen("tcp", net.JoinHostPort(o.address, strconv.Itoa(o.port)))
}

// unsecured is the user of requests to the insecure port, as in kube-apiserver.
var unsecured = &user.DefaultInfo{
	Name: "system:unsecured", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated},
}

// serveInsecurely serves requests on listener until stop is called, which ends them.
func serveInsecurely(listener net.Listener, handler http.Handler) (stop func()) {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(w, r.WithContext(filters.WithUser(r.Context(), unsecured)))
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until Close
	}()
	return func() {
		_ = server.Close()
		<-served
	}
}
