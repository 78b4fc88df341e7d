package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// DefaultFieldOwner is the field manager of clients that don't configure one.
const DefaultFieldOwner = "kelson"

// Config configures a client.
type Config struct {
	// REST has the address and credentials of the server; required. Its Transport may be any
	// http.RoundTripper; the client then does not start background goroutines. QPS and Burst are
	// ignored: the server limits requests, not the client.
	REST *rest.Config
	// Scheme has the Go types. The types of Kubernetes (k8s.io/api/…) need not be registered.
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources. The default Mapper calls discovery on the first use of a
	// kind, and again for kinds that it does not find; it does not poll.
	Mapper meta.RESTMapper
	// FieldOwner is the field manager of writes; DefaultFieldOwner if empty.
	FieldOwner string
	// UserAgent defaults to that of REST, then to that of client-go.
	UserAgent string
	// CompressWatches accepts compressed watches. Use it for networks that are slow or billed by
	// volume: kube-apiserver compresses each event separately, which costs both sides more than all
	// other work on the event. Compression of lists follows REST, except over loopback, where it is
	// off.
	CompressWatches bool
	// Plain turns off optimizations that leave traces on the server.
	Plain Plain
	// Warnings receives every warning in a response. By default, each distinct text is logged once.
	Warnings func(ctx context.Context, warning string)
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// Plain turns off, one by one, optimizations that send requests other than those of the caller.
// They are visible in managedFields, audit logs and metrics: see docs/guides/leaving.md. The zero
// value leaves all of them on.
type Plain struct {
	// Applies makes Apply send a server-side apply even for objects that are known to be missing
	// (WriteOptions.New). Otherwise it creates them, and the create owns its fields as the manager
	// NAME:apply. With Applies, an Apply of an object that was created this way transfers the
	// fields to the manager NAME, so that NAME:apply owns no fields.
	Applies bool
	// Statuses makes the client send each StatusPatch as a merge patch. Otherwise it sends an
	// update if that has the same effect.
	Statuses bool
	// IsCustom, if not nil, reports whether a kind is served from a CustomResourceDefinition. By
	// default the client finds out once per kind, before the first update of a status, with a dry
	// run of a strategic merge patch. Servers reject it with 415 for custom resources.
	IsCustom func(kind schema.GroupVersionKind) bool
}

type restClient struct {
	http     *http.Client // for single responses
	streams  *http.Client // for watches: no overall timeout
	leases   *http.Client // for Leases: other requests must not delay a renewal
	base     *url.URL
	scheme   *runtime.Scheme
	mapper   meta.RESTMapper
	owner    string
	agent    string
	warnings func(context.Context, string)
	compress bool
	steady   bool
	off      Plain
	// by kind: whether creates in place of applies have only the fields of the document
	plain  sync.Map
	custom sync.Map // by kind: whether it is a custom resource

	// whether the server has sent protobuf, and whether it rejects protobuf
	messages, noMessages atomic.Bool
}

var _ Client = (*restClient)(nil)

// New returns a client. It does not contact the server.
func New(cfg Config) (Client, error) {
	if cfg.REST == nil {
		return nil, errors.New("new client: Config.REST is nil: set it to the API server's configuration")
	}
	conf := rest.CopyConfig(cfg.REST)
	if cfg.UserAgent != "" {
		conf.UserAgent = cfg.UserAgent
	}
	if conf.UserAgent == "" {
		conf.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	base, _, err := rest.DefaultServerUrlFor(conf)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	if isLoopback(base.Hostname()) {
		conf.DisableCompression = true // over loopback, compression takes longer than it saves
	}
	single, err := newHTTPClient(conf, maxConnections)
	if err != nil {
		return nil, err
	}
	streams, err := newHTTPClient(conf, 0)
	if err != nil {
		return nil, err
	}
	leases, err := newHTTPClient(conf, maxLeaseConnections)
	if err != nil {
		return nil, err
	}
	streams.Timeout = 0
	// A path prefix of the host is kept for every request; a query or fragment is not.
	base = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/")}

	c := &restClient{
		http:     single,
		streams:  streams,
		leases:   leases,
		compress: cfg.CompressWatches,
		base:     base,
		scheme:   cfg.Scheme,
		mapper:   cfg.Mapper,
		owner:    cfg.FieldOwner,
		agent:    conf.UserAgent,
		warnings: cfg.Warnings,
		off:      cfg.Plain,
	}
	if t, ok := cfg.REST.Transport.(interface{ Steady() bool }); ok {
		c.steady = t.Steady()
	}
	if c.scheme == nil {
		c.scheme = newScheme()
	}
	c.owner = cmp.Or(c.owner, DefaultFieldOwner)
	if c.warnings == nil {
		log := cmp.Or(cfg.Log, slog.Default())
		c.warnings = (&onceLogger{log: log}).warn
	}
	if c.mapper == nil {
		c.mapper = NewMapper(c.getDocument)
	}
	return c, nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// Steady reports whether watches through c can't die unnoticed, because the server runs in the same
// process. The transport reports this by a method with the same name. Such watches need no periodic
// renewal.
func Steady(c Client) bool {
	r, ok := c.(*restClient)
	return ok && r.steady
}

func (c *restClient) Scheme() *runtime.Scheme { return c.scheme }
func (c *restClient) Mapper() meta.RESTMapper { return c.mapper }
func (c *restClient) FieldOwner() string      { return c.owner }

// onceLogger logs each text once. Its memory is bounded, because a server could send a different
// text with each warning.
type onceLogger struct {
	log  *slog.Logger
	mu   sync.Mutex
	seen map[string]bool
}

const maxRememberedWarnings = 1000

func (o *onceLogger) warn(ctx context.Context, text string) {
	o.mu.Lock()
	known := o.seen[text]
	if !known {
		if o.seen == nil || len(o.seen) >= maxRememberedWarnings {
			o.seen = map[string]bool{}
		}
		o.seen[text] = true
	}
	o.mu.Unlock()
	if !known {
		o.log.WarnContext(ctx, "warning from the API server: "+text)
	}
}
