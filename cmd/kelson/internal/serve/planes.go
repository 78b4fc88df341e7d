package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/fastpath"
	"kelson.dev/apiserver/pki"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/ephemeral"
)

// planesOptions are the flags of throwaway control planes.
type planesOptions struct {
	max   int
	idle  time.Duration
	flags *pflag.FlagSet // nil without a command line
}

func (o *planesOptions) addFlags(f *pflag.FlagSet) {
	o.flags = f
	f.IntVar(&o.max, "planes", 0, "maximum number of throwaway control planes that clients can create under /planes; 0: none")
	f.DurationVar(&o.idle, "planes-idle", 10*time.Minute,
		"delete a throwaway control plane that had no request for this long; 0: never")
}

func (o *planesOptions) check() error {
	if o.max < 0 {
		return fmt.Errorf("--planes %d: must not be negative", o.max)
	}
	if o.idle < 0 {
		return fmt.Errorf("--planes-idle %s: must not be negative", o.idle)
	}
	if o.max == 0 && o.flags != nil && o.flags.Changed("planes-idle") {
		return errors.New("--planes-idle has no effect without --planes")
	}
	return nil
}

// newPlanes returns the pool of throwaway control planes. Each keeps its state in memory, has its
// own credential and uses the server's kind of node unless a request names another.
func newPlanes(opts planesOptions, own controlplane.Config, dir string, authority *pki.Authority,
	log *slog.Logger) *ephemeral.Planes {
	return ephemeral.New(ephemeral.Config{
		Start: func(ctx context.Context, start ephemeral.Start) (ephemeral.Plane, error) {
			cfg := controlplane.Config{From: start.From, Version: own.Version, Log: log.With("plane", start.ID),
				NoFastPaths: fastpath.DisabledByEnvironment()}
			if start.Workloads {
				cfg.Controllers = controlplane.AllControllers{}
			}
			made := &throwawayPlane{authority: authority.PEM, token: rand.Text()}
			cfg.Authentication.Tokens = map[string]*user.DefaultInfo{
				made.token: {Name: "kelson-admin", Groups: []string{user.SystemPrivilegedGroup}}}
			var err error
			if cfg.Node, err = planeNode(own.Node, start); err != nil {
				return nil, fmt.Errorf("%w: %w", ephemeral.ErrInvalid, err)
			}
			if node, ok := cfg.Node.(controlplane.Processes); ok {
				made.dir = filepath.Join(dir, "planes", start.ID)
				node.Dir = made.dir
				cfg.Node = node
				if err := os.MkdirAll(filepath.Dir(made.dir), 0o700); err != nil {
					return nil, err
				}
			}
			if made.ControlPlane, err = controlplane.Start(ctx, cfg); err != nil {
				return nil, errors.Join(err, made.removeFiles())
			}
			return made, nil
		},
		Max:  opts.max,
		Idle: opts.idle,
	})
}

// planeNode returns what runs the pods of a throwaway control plane: the server's kind of node
// unless the request names another. Its nodes have no Leases.
func planeNode(own controlplane.Node, start ephemeral.Start) (controlplane.Node, error) {
	node := own
	if start.Node != "" {
		var err error
		if node, err = parseNode(start.Node); err != nil {
			return nil, err
		}
	}
	switch node.(type) {
	case controlplane.Simulated:
		return controlplane.Simulated{Groups: start.Nodes, Stages: start.Stages}, nil
	case controlplane.Processes:
		processes, ok := own.(controlplane.Processes)
		if !ok {
			return nil, errors.New("node \"process\" is not allowed: start the server with --node=process")
		}
		node = controlplane.Processes{Hidden: processes.Hidden, Unconfined: processes.Unconfined}
	}
	if len(start.Nodes)+len(start.Stages) > 0 {
		return nil, fmt.Errorf("nodes and stages need the node %q", nodeSimulated)
	}
	return node, nil
}

// throwawayPlane is a control plane of the pool. Its administrator has a bearer token that no other
// control plane accepts. Client certificates would need an authority per plane, a TLS handshake per
// plane, and the names of all these authorities in the handshakes of the shared port.
type throwawayPlane struct {
	*controlplane.ControlPlane
	authority []byte // PEM; issued the certificate of the port
	token     string
	dir       string // for files of containers; "" unless pods run as processes
}

// Kubeconfig implements ephemeral.Plane.
func (p *throwawayPlane) Kubeconfig(url string) (string, error) {
	data, err := kubeconfig(url, p.authority, &api.AuthInfo{Token: p.token})
	return string(data), err
}

// Stop implements ephemeral.Plane.
func (p *throwawayPlane) Stop() {
	p.ControlPlane.Stop()
	_ = p.removeFiles() // leftover files in the server's own directory are harmless
}

func (p *throwawayPlane) removeFiles() error {
	if p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}
