// Package etcd answers the health checks that envtest sends to etcd. The state itself is in the
// memory of kelson kube-apiserver.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Flags adds the flags of etcd that test frameworks set, and returns the value of
// --listen-client-urls. Others may follow; see Ignored.
func Flags(f *pflag.FlagSet) (clients *[]string) {
	f.ParseErrorsAllowlist.UnknownFlags = true
	clients = f.StringSlice("listen-client-urls", []string{"http://127.0.0.1:2379"}, "URLs on which to answer /health")
	f.StringSlice("advertise-client-urls", nil, "accepted for compatibility; has no effect")
	f.StringSlice("listen-peer-urls", nil, "accepted for compatibility; has no effect")
	f.String("data-dir", "", "accepted for compatibility; has no effect")
	f.Bool("unsafe-no-fsync", false, "accepted for compatibility; has no effect")
	f.String("log-level", "", "accepted for compatibility; has no effect")
	f.String("name", "", "accepted for compatibility; has no effect")
	return clients
}

// Ignored returns a line for each flag in args that Flags does not have. Suites may set any flag of
// etcd.
func Ignored(f *pflag.FlagSet, args []string) (notes []string) {
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && name != "" && name != "help" && name != "h" && f.Lookup(name) == nil {
			notes = append(notes, "--"+name+" has no effect")
		}
	}
	return notes
}

// Serve answers /health on urls until ctx ends. It calls requested for each request. When it
// listens, it writes a line to out with etcd's former words, for which controller-runtime v0.8 and
// earlier wait.
func Serve(ctx context.Context, urls []string, out io.Writer, requested func()) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"health":"true","reason":""}`)
	})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requested()
		mux.ServeHTTP(w, req)
	}), ReadHeaderTimeout: 10 * time.Second}
	defer server.Close() // responses are so short that shutdown need not wait for them
	failed := make(chan error, len(urls))
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return fmt.Errorf("--listen-client-urls %q: must be http://HOST:PORT", text)
		}
		listener, err := net.Listen("tcp", u.Host)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", u.Host, err)
		}
		fmt.Fprintf(out, "etcd: serving insecure client requests on %s\n", u.Host)
		go func() { failed <- server.Serve(listener) }()
	}
	select {
	case err := <-failed:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
		return server.Close()
	}
}
