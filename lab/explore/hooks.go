package explore

import (
	"cmp"
	"context"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"kelson.dev/lab/testenv"
)

// dialTimeout is how long a connection to a port on the same machine may take.
const dialTimeout = 5 * time.Second

// defaultWebhookPort is the default of controller-runtime.
const defaultWebhookPort = "9443"

// hookFolder is where controller-runtime looks for the certificate of webhooks, below TMPDIR.
var hookFolder = filepath.Join("k8s-webhook-server", "serving-certs")

// prepareWebhooks sets the conversion webhooks of a project, and writes the certificate with which
// the processes of a Binary serve webhooks.
func (e *explorer) prepareWebhooks(ctx context.Context) error {
	if err := setConversions(ctx, e.base.Client(), e.scenario.conversions); err != nil {
		return err
	}
	if !testenv.HasWebhooks(e.base.OperatorContext(ctx)) {
		return nil
	}
	if err := e.base.TrustWebhooks(ctx); err != nil {
		return err
	}
	e.wire.temp = filepath.Join(e.wire.dir, "tmp")
	e.wire.certificates = filepath.Join(e.wire.temp, hookFolder)
	return e.base.WriteWebhookCertificate(ctx, e.wire.certificates)
}

// closed returns a channel that is closed when all goroutines of a group have ended.
func closed(group *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	return done
}

// connect connects to a port of the process, in its network.
func (p *process) connect(address string) (net.Conn, error) {
	if p.link != nil {
		return p.link.Dial(address)
	}
	p.mu.Lock()
	dial := p.dial
	p.mu.Unlock()
	if dial == nil {
		return nil, net.ErrClosed // the process has not started, or has ended
	}
	return dial(address)
}

// passWebhooks connects the control plane of a run to the webhooks of the newest process of a
// Binary, until the returned function is called.
func (op *processes) passWebhooks() (stop func()) {
	listener := testenv.ServiceWebhookConfig(op.setup.env.OperatorContext(op.setup.t.Context())).Listener
	if listener == nil {
		return func() {} // the scenario has no webhooks
	}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the listener is closed
			}
			connections.Go(func() { op.passWebhook(conn) })
		}
	})
	return func() {
		listener.Close()
		connections.Wait()
	}
}

// passWebhook forwards a connection to the newest process. If the process does not listen, the
// call of the webhook fails, as when a Service has no ready endpoint.
func (op *processes) passWebhook(from net.Conn) {
	defer from.Close()
	p := op.newest.Load()
	if p == nil {
		return
	}
	to, err := p.connect(net.JoinHostPort("127.0.0.1",
		cmp.Or(op.setup.binary().WebhookPort, op.setup.scenario.webhookPort, defaultWebhookPort)))
	if err != nil {
		op.missed.Add(1)
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	for _, direction := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(direction[1], direction[0]) // either end may close the connection
			from.Close()
			to.Close()
		})
	}
	select {
	case <-p.ended:
		from.Close()
		to.Close()
	case <-closed(&both):
	}
	both.Wait()
}
