// Package delegated delegates the authentication and authorization of an aggregated API server's
// clients to a Kubernetes cluster.
//
// Users come from the headers of the cluster's front proxy, from client certificates of the
// cluster's authority, or from bearer tokens that the cluster reviews (TokenReview). The cluster
// publishes both authorities in the ConfigMap kube-system/extension-apiserver-authentication, whose
// changes the package follows. The cluster reviews permissions (SubjectAccessReview). Verified
// certificates and both kinds of reviews are cached.
//
// The package copies the cluster's configuration of admission and flow control (webhooks, policies,
// FlowSchemas, PriorityLevelConfigurations) to a store in memory and follows its changes. So it
// also applies to the kinds of this server.
//
//	auth, err := delegated.New(ctx, delegated.Config{Cluster: config})
//
// The server's account needs the ClusterRole system:auth-delegator, and the Role
// extension-apiserver-authentication-reader in kube-system. If the server may not list and watch a
// part of the configuration, it logs that and does not apply that part.
package delegated

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	unionauth "k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/internal/clientcert"
	"kelson.dev/apiserver/store"
)

// Config configures the delegation.
type Config struct {
	// Cluster is the configuration of a client of the cluster. If it has no QPS and no RateLimiter,
	// requests are not limited: clients wait for reviews, and the cluster limits requests itself.
	// New does not change it, and asks for responses without compression.
	Cluster *rest.Config
	// TokenTTL, AllowedTTL and DeniedTTL are how long answers about tokens and permissions are
	// cached; 0 means ten seconds.
	TokenTTL, AllowedTTL, DeniedTTL time.Duration
	// Objects has objects that apply until those of the cluster's configuration are read; nil means
	// an empty store. It is closed when the context of New ends.
	Objects *store.Store
	// Log receives a message about each part of the cluster's configuration that is not applied;
	// nil discards it.
	Log *slog.Logger
	// OpenPaths are paths that every client may read; nil means /healthz, /livez and /readyz.
	OpenPaths []string
}

// Delegation lets a cluster authenticate and authorize requests. It is safe for concurrent use.
type Delegation struct {
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
	// Objects has those of the cluster's webhooks, admission policies, FlowSchemas,
	// PriorityLevelConfigurations and namespaces that the server may read.
	Objects *store.Store
	// Client is the client configuration for requests to the cluster.
	Client *rest.Config

	client kubernetes.Interface
	cas    []*authorities

	mu     sync.Mutex
	joined []byte
	pool   *x509.CertPool
	exists map[string]time.Time // when each namespace was last seen
}

const (
	namespace = "kube-system"
	name      = "extension-apiserver-authentication"
	// timeout limits each request to the cluster.
	timeout = 10 * time.Second
	// namespaceTTL is how long a namespace that was seen counts as existing.
	namespaceTTL = 30 * time.Second
)

// New reads the authorities of the cluster and follows them until ctx ends.
func New(ctx context.Context, cfg Config) (*Delegation, error) {
	cfg.Cluster = rest.CopyConfig(cfg.Cluster)
	if cfg.Cluster.QPS == 0 && cfg.Cluster.RateLimiter == nil {
		cfg.Cluster.QPS = -1
	}
	// The requests are reviews and watches of few objects. A compressed watch holds 43 KB for its
	// decompressor.
	cfg.Cluster.DisableCompression = true
	client, err := kubernetes.NewForConfig(cfg.Cluster)
	if err != nil {
		return nil, fmt.Errorf("create client of the cluster: %w", err)
	}
	for _, ttl := range []*time.Duration{&cfg.TokenTTL, &cfg.AllowedTTL, &cfg.DeniedTTL} {
		*ttl = cmp.Or(*ttl, 10*time.Second)
	}
	if cfg.OpenPaths == nil {
		cfg.OpenPaths = []string{"/healthz", "/livez", "/readyz", "/healthz/*", "/livez/*", "/readyz/*"}
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	d := &Delegation{Objects: cfg.Objects, Client: cfg.Cluster, client: client, exists: map[string]time.Time{}}
	if d.Objects == nil {
		if d.Objects, err = store.Open(store.Config{}); err != nil {
			return nil, err
		}
	}
	context.AfterFunc(ctx, func() { d.Objects.Close() })
	followed := make(chan error, 1)
	go func() { followed <- d.follow(ctx, cfg) }() // all requests at the same time
	if err := d.authenticate(ctx, cfg); err != nil {
		return nil, err
	}
	if err := d.authorize(cfg); err != nil {
		return nil, err
	}
	return d, <-followed
}

// backoff is for reviews that the cluster does not answer.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

func (d *Delegation) authenticate(ctx context.Context, cfg Config) error {
	published, err := d.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the cluster's authorities; the server's account needs the Role extension-apiserver-authentication-reader in kube-system: %w", err)
	}
	var mechanisms []authenticator.Request
	follow := func(key string) (*authorities, error) {
		ca, err := followAuthorities(ctx, d.client, key, []byte(published.Data[key]))
		if err == nil {
			d.cas = append(d.cas, ca)
		}
		return ca, err
	}
	withUsers := published.Data["client-ca-file"] != ""
	if published.Data["requestheader-client-ca-file"] != "" {
		ca, err := follow("requestheader-client-ca-file")
		if err != nil {
			return err
		}
		headers := headerrequest.NewRequestHeaderAuthRequestController(name, namespace, d.client,
			"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
			"requestheader-extra-headers-prefix", "requestheader-allowed-names")
		if err := headers.RunOnce(ctx); err != nil {
			return fmt.Errorf("read the headers of the front proxy in %s/%s: %w", namespace, name, err)
		}
		go headers.Run(ctx, 1)
		mechanisms = append(mechanisms, clientcert.Proxies{
			Authorities:   ca.VerifyOptions,
			AllowedNames:  headerrequest.StringSliceProviderFunc(headers.AllowedClientNames),
			Usernames:     headerrequest.StringSliceProviderFunc(headers.UsernameHeaders),
			UIDs:          headerrequest.StringSliceProviderFunc(headers.UIDHeaders),
			Groups:        headerrequest.StringSliceProviderFunc(headers.GroupHeaders),
			ExtraPrefixes: headerrequest.StringSliceProviderFunc(headers.ExtraHeaderPrefixes),
			OnlyNamed:     withUsers,
		}.Authenticator())
	}
	if withUsers {
		ca, err := follow("client-ca-file")
		if err != nil {
			return err
		}
		mechanisms = append(mechanisms, clientcert.Users(ca.VerifyOptions))
	}
	tokens, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: d.client.AuthenticationV1(), TokenAccessReviewTimeout: timeout,
		WebhookRetryBackoff: backoff(), CacheTTL: cfg.TokenTTL,
	}.New()
	if err != nil {
		return fmt.Errorf("delegate authentication: %w", err)
	}
	identified := group.NewAuthenticatedGroupAdder(unionauth.New(append(mechanisms, tokens)...))
	d.Authenticator = unionauth.NewFailOnError(identified, anonymous.NewAuthenticator(nil))
	return nil
}

func (d *Delegation) authorize(cfg Config) error {
	open, err := path.NewAuthorizer(cfg.OpenPaths)
	if err != nil {
		return fmt.Errorf("open paths: %w", err)
	}
	reviews, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: d.client.AuthorizationV1(), AllowCacheTTL: cfg.AllowedTTL,
		DenyCacheTTL: cfg.DeniedTTL, WebhookRetryBackoff: backoff(),
	}.New()
	if err != nil {
		return fmt.Errorf("delegate authorization: %w", err)
	}
	d.Authorizer, err = union.New(union.NamedAuthorizer{AuthorizerName: "masters", Authorizer: authz.Masters()},
		union.NamedAuthorizer{AuthorizerName: "open paths", Authorizer: open},
		union.NamedAuthorizer{AuthorizerName: "cluster", Authorizer: reviews})
	return err
}

// ClientCAs returns the cluster's authorities of clients and of the front proxy.
func (d *Delegation) ClientCAs() *x509.CertPool {
	var all []byte
	for _, ca := range d.cas {
		all = append(append(all, ca.content()...), '\n')
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pool == nil || !bytes.Equal(all, d.joined) {
		d.joined, d.pool = all, x509.NewCertPool()
		d.pool.AppendCertsFromPEM(all)
	}
	return d.pool
}

// Namespace returns an error unless objects may be created in a namespace of the cluster: NotFound,
// or Forbidden while the namespace is being deleted. Namespaces are remembered for half a minute.
func (d *Delegation) Namespace(ctx context.Context, name string) error {
	d.mu.Lock()
	seen, ok := d.exists[name]
	d.mu.Unlock()
	if ok && time.Since(seen) < namespaceTTL {
		return nil
	}
	ns, err := d.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.exists, name)
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err):
		return err
	case errors.As(err, &status):
		return apierrors.NewInternalError(fmt.Errorf("read namespace %s: %w", name, err))
	case err != nil:
		return apierrors.NewServiceUnavailable(fmt.Sprintf("read namespace %s: %v", name, err))
	case ns.DeletionTimestamp != nil:
		return fmt.Errorf("unable to create new content in namespace %s because it is being terminated", name)
	}
	d.exists[name] = time.Now()
	return nil
}
