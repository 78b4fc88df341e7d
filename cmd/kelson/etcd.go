package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// etcdCommand is what envtest starts as etcd: it answers that it is healthy. The kube-apiserver beside it keeps its own state.
func etcdCommand() *cobra.Command {
	var clients []string
	c := &cobra.Command{
		Use:   "etcd",
		Short: "Stands in for etcd where envtest starts one",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return etcd(c.Context(), clients)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&clients, "listen-client-urls", []string{"http://127.0.0.1:2379"}, "where to answer /health")
	f.StringSlice("advertise-client-urls", nil, "accepted, and not needed")
	f.StringSlice("listen-peer-urls", nil, "accepted, and not needed")
	f.String("data-dir", "", "accepted, and not needed")
	f.Bool("unsafe-no-fsync", false, "accepted, and not needed")
	f.String("log-level", "", "accepted, and not needed")
	f.String("name", "", "accepted, and not needed")
	return c
}

func etcd(ctx context.Context, urls []string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"health":"true","reason":""}`)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, len(urls))
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return fmt.Errorf("--listen-client-urls %q: want http://HOST:PORT", text)
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
