package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"kelson.dev/server/authn"
	"kelson.dev/server/controlplane"
	"kelson.dev/server/pki"
	"kelson.dev/server/planes"
)

// planesOptions are the flags of serve about throwaway control planes.
type planesOptions struct {
	max  int
	idle time.Duration
}

func (o *planesOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.max, "planes", 0, "hand out up to this many throwaway control planes under /planes; 0: none")
	f.DurationVar(&o.idle, "planes-idle", 10*time.Minute, "drop a throwaway control plane that had no request for so long; 0: never")
}

func (o *planesOptions) check() error {
	if o.max < 0 {
		return fmt.Errorf("--planes %d: must not be negative", o.max)
	}
	if o.idle < 0 {
		return fmt.Errorf("--planes-idle %s: must not be negative", o.idle)
	}
	return nil
}

// newPlanes makes what hands out control planes: in memory, with the server's authority and, unless asked otherwise, its kind of node.
func newPlanes(opts planesOptions, own controlplane.Config, dir string, authority *pki.Authority, log *slog.Logger) (*planes.Planes, error) {
	node := own.Node
	identify, err := authn.New(context.Background(), authn.Config{ClientCAs: authority.Pool(), Anonymous: new(bool)})
	if err != nil {
		return nil, err
	}
	admin, err := newAdministrator(authority)
	if err != nil {
		return nil, err
	}
	return planes.New(planes.Config{
		Start: func(ctx context.Context, start planes.Start) (planes.Plane, error) {
			cfg := controlplane.Config{From: start.From, ClientCAs: authority.Pool(), Node: node, NodeLease: -1, Log: log.With("plane", start.ID)}
			if start.Node != "" {
				var err error
				if cfg.Node, err = controlplane.ParseNode(start.Node); err != nil {
					return nil, fmt.Errorf("%w: %w", planes.ErrInvalid, err)
				}
			}
			if cfg.Node == controlplane.NodeProcess && node != controlplane.NodeProcess {
				return nil, fmt.Errorf("%w: this server runs no processes: start it with --node=process", planes.ErrInvalid)
			}
			if cfg.Node != controlplane.NodeProcess {
				return controlplane.Start(ctx, cfg)
			}
			cfg.NodeDir, cfg.NodeHidden, cfg.NodeUnconfined = filepath.Join(dir, "planes", start.ID), own.NodeHidden, own.NodeUnconfined
			if err := os.MkdirAll(filepath.Dir(cfg.NodeDir), 0o700); err != nil {
				return nil, err
			}
			plane, err := controlplane.Start(ctx, cfg)
			if err != nil {
				return nil, errors.Join(err, os.RemoveAll(cfg.NodeDir))
			}
			return &planeWithFiles{plane, cfg.NodeDir}, nil
		},
		Authenticator: identify,
		Kubeconfig: func(url string) (string, error) {
			data, err := admin.kubeconfig(url)
			return string(data), err
		},
		Max:  opts.max,
		Idle: opts.idle,
	}), nil
}

// planeWithFiles is a control plane whose containers have files.
type planeWithFiles struct {
	*controlplane.ControlPlane
	dir string
}

func (p *planeWithFiles) Stop() {
	p.ControlPlane.Stop()
	_ = os.RemoveAll(p.dir) // they are in the server's own directory: what is left there is in nobody's way
}

// withPlanes puts the throwaway control planes beside the server's own one.
func withPlanes(all *planes.Planes, own http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/planes" || strings.HasPrefix(r.URL.Path, "/planes/") {
			all.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// whileOpen gives a context that ends when in does: whoever started this process and holds the other end need not see to its end.
func whileOpen(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}
