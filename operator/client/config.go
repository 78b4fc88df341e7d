package client

import (
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
	"k8s.io/client-go/rest"
)

// DefaultFieldOwner names the writer in managedFields where nothing else is configured.
const DefaultFieldOwner = "kelson"

// Config says which server a client speaks to, and how.
type Config struct {
	// REST is the address and the credentials of the server; required. Its Transport may be any http.RoundTripper, and then
	// the client starts nothing in the background. Its QPS and Burst do not count: the server limits, not the client.
	REST *rest.Config
	// Scheme knows the Go types. Those of Kubernetes (k8s.io/api/…) are known without it.
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources. By default discovery is asked when a kind is met for the first time, and again when it
	// is not known; there is no polling.
	Mapper meta.RESTMapper
	// FieldOwner is the name under which writes are recorded; by default DefaultFieldOwner.
	FieldOwner string
	// UserAgent by default is REST's, or that of client-go.
	UserAgent string
	// CompressWatches takes watches that the server compresses. It is for networks that are slow or paid by the byte: kube-apiserver compresses
	// each event by itself, which costs both sides more than all else about it. Lists are compressed as REST says, but never on the way to the same machine.
	CompressWatches bool
	// NetHTTP has net/http send all requests. By default, small writes go over connections of the client's own, which takes a third less of the
	// processor; those connections are HTTP/1.1 as net/http's are. The environment variable KELSON_NET_HTTP=true does the same for every client of a
	// process.
	NetHTTP bool
	// Warnings gets every warning the server sends with an answer. By default each text is logged once.
	Warnings func(ctx context.Context, warning string)
	// Log by default is slog.Default().
	Log *slog.Logger
}

type restClient struct {
	http     *http.Client // for single answers
	streams  *http.Client // for watches: no timeout over all
	base     *url.URL
	scheme   *runtime.Scheme
	mapper   meta.RESTMapper
	owner    string
	agent    string
	warnings func(context.Context, string)
	compress bool
	steady   bool
	texts    sync.Pool // of *sharing: what answers have in common that may be changed
	parts    sync.Pool // the same, of answers that nobody changes
	plain    sync.Map  // by kind: whether creates that stand for applies have no fields but those of the document
	custom   sync.Map  // by kind: whether it is a custom resource

	messages, noMessages atomic.Bool // the server has answered with protobuf, or does not take it
}

var _ Client = (*restClient)(nil)

// New makes a client. It does not contact the server.
func New(cfg Config) (Client, error) {
	if cfg.REST == nil {
		return nil, errors.New("new client: Config.REST is missing")
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
		conf.DisableCompression = true // which takes both sides longer than the bytes do that it saves
	}
	netHTTP, err := usesNetHTTP(cfg)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	single, err := newHTTPClient(conf, maxConnections, netHTTP)
	if err != nil {
		return nil, err
	}
	streams, err := newHTTPClient(conf, 0, netHTTP)
	if err != nil {
		return nil, err
	}
	streams.Timeout = 0
	// A prefix in the host's path stays in front of every path, a query or fragment does not.
	base = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/")}

	c := &restClient{
		http:     single,
		streams:  streams,
		compress: cfg.CompressWatches,
		base:     base,
		scheme:   cfg.Scheme,
		mapper:   cfg.Mapper,
		owner:    cfg.FieldOwner,
		agent:    conf.UserAgent,
		warnings: cfg.Warnings,
	}
	c.texts.New = func() any { return newSharing(false) }
	c.parts.New = func() any { return newSharing(true) }
	if t, ok := cfg.REST.Transport.(interface{ Steady() bool }); ok {
		c.steady = t.Steady()
	}
	if c.scheme == nil {
		c.scheme = newScheme()
	}
	if c.owner == "" {
		c.owner = DefaultFieldOwner
	}
	if c.warnings == nil {
		log := cfg.Log
		if log == nil {
			log = slog.Default()
		}
		c.warnings = (&onceLogger{log: log}).warn
	}
	if c.mapper == nil {
		c.mapper = NewMapper(c.getDocument)
	}
	return c, nil
}

// isLoopback says that a host is this machine.
func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// Steady says that a watch through c never dies unnoticed, since the server is in the same process; its transport says so by a method
// of the same name. Such watches need not be renewed now and then.
func Steady(c Client) bool {
	r, ok := c.(*restClient)
	return ok && r.steady
}

func (c *restClient) Scheme() *runtime.Scheme { return c.scheme }
func (c *restClient) Mapper() meta.RESTMapper { return c.mapper }
func (c *restClient) FieldOwner() string      { return c.owner }

// onceLogger logs each text once. What it remembers is bounded: a server that puts something new into each warning
// would otherwise fill the memory.
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
		o.log.WarnContext(ctx, "the API server warns: "+text)
	}
}
