package serve

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	page "kelson.dev/console"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/ephemeral"
	"kelson.dev/kubernetes/tokens"
)

// Plane is a control plane on a port.
type Plane struct {
	*controlplane.ControlPlane
	// Kubeconfig is the file with the administrator's kubeconfig.
	Kubeconfig string

	from      string         // says which moment of a history is served; "" if the state is its own
	moment    *page.Moment   // of the past state; nil if the state is not from a history
	node      *containerNode // nil without --node=containers
	authority *pki.Authority
	server    *serving.Server
	throwaway *ephemeral.Planes // nil if --planes is 0
	cleanup   []func() error    // in the order of creation
}

// URL returns the base URL of the server.
func (p *Plane) URL() string { return p.server.URL() }

// keySetURL returns where pods and other machines read the keys of service accounts' tokens. The
// URL of a server that listens on all addresses is for its own machine.
func keySetURL(url string, listening net.Addr, advertised netip.AddrPort) string {
	if tcp, ok := listening.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() && advertised.IsValid() {
		url = "https://" + advertised.String()
	}
	return url + tokens.KeySetPath
}

// Run serves until ctx ends, then drains requests and closes everything.
func (p *Plane) Run(ctx context.Context) error {
	err := p.withNode(ctx, p.server.Run)
	return errors.Join(err, p.close())
}

// drain ends the watches and waits for the short requests of all control planes.
func (p *Plane) drain(ctx context.Context) error {
	var err error
	if p.throwaway != nil {
		err = p.throwaway.Drain(ctx)
	}
	return errors.Join(err, p.ControlPlane.Drain(ctx))
}

func (p *Plane) close() error {
	var errs []error
	for i := len(p.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, p.cleanup[i]())
	}
	return errors.Join(errs...)
}
