package dropin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/operator/footprint"
)

// EtcdCommand returns kelson etcd, which envtest starts as etcd. It only answers health checks: the
// state is in the memory of kelson kube-apiserver.
func EtcdCommand() *cobra.Command {
	var clients []string
	c := &cobra.Command{
		Use:   "etcd",
		Short: "Replacement for the etcd that envtest starts",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return etcd(c.Context(), clients)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&clients, "listen-client-urls", []string{"http://127.0.0.1:2379"}, "URLs on which to answer /health")
	f.StringSlice("advertise-client-urls", nil, "accepted for compatibility; has no effect")
	f.StringSlice("listen-peer-urls", nil, "accepted for compatibility; has no effect")
	f.String("data-dir", "", "accepted for compatibility; has no effect")
	f.Bool("unsafe-no-fsync", false, "accepted for compatibility; has no effect")
	f.String("log-level", "", "accepted for compatibility; has no effect")
	f.String("name", "", "accepted for compatibility; has no effect")
	return c
}

const (
	// quiet is the time without requests after which memory is released.
	quiet = time.Second
	// keptPages is how many bytes of the binary may stay in memory.
	keptPages = 1 << 20
)

// release returns the memory that the initialization of the binary's packages used.
func release() {
	debug.FreeOSMemory()
	footprint.Release(keptPages)
}

func etcd(ctx context.Context, urls []string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"health":"true","reason":""}`)
	})
	idle := time.AfterFunc(quiet, release)
	defer idle.Stop()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		idle.Reset(quiet)
		mux.ServeHTTP(w, req)
	}), ReadHeaderTimeout: 10 * time.Second}
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
		go func() { failed <- server.Serve(listener) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(end), server.Close())
}
