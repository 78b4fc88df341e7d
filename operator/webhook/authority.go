package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// AuthorityConfig configures an Authority.
type AuthorityConfig struct {
	// Client accesses the Secret through which replicas share the certificates; it must read from
	// the server. If nil, certificates are kept in memory.
	Client client.Client
	// Secret is the name and namespace of the Secret. It is created if it does not exist.
	Secret client.Key
	// Names are the DNS names and IP addresses of the server.
	Names []string
	// Life is the lifetime of a serving certificate; 90 days if zero. It is renewed after two
	// thirds of that time. A certificate authority lives forty times as long.
	Life time.Duration
	// Log receives the log; slog.Default() if nil.
	Log *slog.Logger
}

// Authority issues and renews the certificates of a webhook server, and is the certificate
// authority that signs them.
type Authority struct {
	cfg AuthorityConfig

	mu      sync.Mutex
	bundle  *bundle
	cert    *tls.Certificate
	changed chan struct{} // closed and replaced on each change
	ready   chan struct{} // closed when the first certificate is available
}

// NewAuthority returns an authority. It issues certificates when it runs.
func NewAuthority(cfg AuthorityConfig) *Authority {
	cfg.Life = cmp.Or(cfg.Life, 90*24*time.Hour)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	return &Authority{cfg: cfg, changed: make(chan struct{}), ready: make(chan struct{})}
}

// Ready returns a channel that is closed when there is a certificate.
func (a *Authority) Ready() <-chan struct{} { return a.ready }

// CABundle returns the certificates that clients must trust, in PEM, or nil before there are any.
// changed is closed when they change.
func (a *Authority) CABundle() (pem []byte, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bundle != nil {
		pem = a.bundle.pem()
	}
	return pem, a.changed
}

// GetCertificate returns the current certificate.
func (a *Authority) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cert == nil {
		return nil, errors.New("no webhook certificate yet")
	}
	return a.cert, nil
}

// retryAfter is the delay after an error of the Secret.
const retryAfter = 2 * time.Second

// Run issues and renews certificates until ctx ends. It watches the Secret, so that it reacts
// immediately if another replica renews the certificates or the Secret is deleted.
func (a *Authority) Run(ctx context.Context) error {
	touched := make(chan struct{}, 1)
	if a.cfg.Client != nil {
		ended := a.follow(ctx, touched)
		defer ended()
	}
	for {
		wait, err := a.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			a.cfg.Log.Error("cannot renew the webhook certificate; retrying", "secret", a.cfg.Secret.String(), "err",
				err)
			wait = retryAfter
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-touched:
			timer.Stop()
		}
	}
}

// follow sends to touched on each change of the Secret, until ctx ends; wait returns when follow
// has ended.
func (a *Authority) follow(ctx context.Context, touched chan<- struct{}) (wait func()) {
	secrets, err := informer.New(informer.Config{Client: a.cfg.Client, Log: a.cfg.Log, Scope: informer.Scope{
		Namespaces: []string{a.cfg.Secret.Namespace},
		Fields:     fields.OneTermEqualSelector("metadata.name", a.cfg.Secret.Name),
	}})
	if err != nil {
		return func() {}
	}
	if inf, err := secrets.For(&corev1.Secret{}); err == nil {
		_, _ = inf.AddHandler(anyChange(func() {
			select {
			case touched <- struct{}{}:
			default: // a change is already pending
			}
		}))
	}
	var running sync.WaitGroup
	running.Go(func() { _ = secrets.Run(ctx) })
	return running.Wait
}

// refresh updates the certificates and returns the time until the next refresh.
func (a *Authority) refresh(ctx context.Context) (time.Duration, error) {
	b, err := a.load(ctx)
	if err != nil {
		return 0, err
	}
	a.use(b)
	return time.Until(b.due(a.cfg.Life)), nil
}

func (a *Authority) use(b *bundle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bundle.equal(b) {
		return
	}
	first := a.bundle == nil
	a.bundle, a.cert = b, b.tls()
	close(a.changed)
	a.changed = make(chan struct{})
	if first {
		close(a.ready)
	}
	a.cfg.Log.Info("webhook certificate in use", "until", b.serving.cert.NotAfter)
}

// load returns the valid bundle: the stored one, or a new one that it has stored.
func (a *Authority) load(ctx context.Context) (*bundle, error) {
	if a.cfg.Client == nil {
		a.mu.Lock()
		kept := a.bundle
		a.mu.Unlock()
		return kept.renewed(time.Now(), a.cfg.Names, a.cfg.Life)
	}
	for {
		secret := &corev1.Secret{}
		err := a.cfg.Client.Get(ctx, a.cfg.Secret, secret)
		exists := err == nil
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		var kept *bundle
		if len(secret.Data) > 0 {
			if kept, err = decodeBundle(secret.Data); err != nil {
				a.cfg.Log.Warn("invalid Secret of the webhook certificate; replacing it", "secret",
					a.cfg.Secret.String(), "err", err)
			}
		}
		b, err := kept.renewed(time.Now(), a.cfg.Names, a.cfg.Life)
		if err != nil || b == kept {
			return b, err
		}
		if secret.Data, err = b.encode(); err != nil {
			return nil, err
		}
		if exists {
			err = a.cfg.Client.Update(ctx, secret)
		} else {
			secret.ObjectMeta = metav1.ObjectMeta{Namespace: a.cfg.Secret.Namespace, Name: a.cfg.Secret.Name}
			secret.Type = corev1.SecretTypeTLS
			err = a.cfg.Client.Create(ctx, secret)
		}
		switch {
		case err == nil:
			return b, nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && exists:
			// Another replica was first: use its certificate.
		default:
			return nil, fmt.Errorf("store webhook certificate in a Secret: %w", err)
		}
	}
}

// anyChange is an informer.Handler that calls the function for every event.
type anyChange func()

func (f anyChange) OnAdd(client.Object, bool)    { f() }
func (f anyChange) OnUpdate(_, _ client.Object)  { f() }
func (f anyChange) OnDelete(client.Object, bool) { f() }
