package operator

import (
	"context"
	"flag"
	"log/slog"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/footprint"
	"kelson.dev/operator/client"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/trace"
)

// Config configures Run.
type Config struct {
	// REST is the address and credentials of the API server; required.
	REST *rest.Config
	// Log receives the operator's log; slog.Default() if nil.
	Log *slog.Logger
	// Trace, if not nil, receives the record of each reconcile.
	Trace trace.Sink
	// TracerProvider, if not nil, creates OpenTelemetry spans of reconciles and their writes.
	TracerProvider oteltrace.TracerProvider
	// MetricsAddress, HealthAddress and TraceAddress are host:port addresses to serve metrics,
	// probes, and the trace of recent reconciles at. kelson why reads the trace. If an address is
	// empty, that endpoint is not served.
	MetricsAddress, HealthAddress, TraceAddress string
	// SecureMetrics serves metrics over TLS, only to authorized clients.
	SecureMetrics *manager.SecureMetrics
	// GracePeriod bounds how long shutdown takes; 30 s if zero.
	GracePeriod time.Duration
	// Election, if not nil, elects one of several replicas to run the controllers. An empty name of
	// its Lease defaults to the name of the operator.
	Election *leader.Config
	// Webhooks configures how webhooks are served; NoWebhooks disables them.
	Webhooks   manager.WebhookConfig
	NoWebhooks bool
	// Plain turns off optimizations that leave traces on the server.
	Plain client.Plain
	// Clusters are additional clusters that the controllers work on, by the names that requests
	// carry. For clusters that join and leave at run time, use a Provider.
	Clusters map[string]*rest.Config
}

// Run runs an operator until ctx ends, and returns when all of it has stopped. It returns nil after
// a clean shutdown.
func Run(ctx context.Context, cfg Config, all ...Part) error {
	p, err := newParts(all)
	if err != nil {
		return err
	}
	for _, register := range p.flags { // sets the default values
		register(flag.NewFlagSet(p.name, flag.ContinueOnError))
	}
	if err := p.configure(&cfg); err != nil {
		return err
	}
	return p.run(ctx, cfg)
}

// newParts installs the parts of an operator.
func newParts(all []Part) (*parts, error) {
	p := &parts{name: defaultName(), scheme: runtime.NewScheme()}
	metav1.AddToGroupVersion(p.scheme, schema.GroupVersion{Version: "v1"})
	return p, p.install(all)
}

func (p *parts) install(all []Part) error {
	for _, part := range all {
		if err := part.install(p); err != nil {
			return err
		}
	}
	return nil
}

// configure calls the functions of Configure and Parts. Parts may add further ones.
func (p *parts) configure(cfg *Config) error {
	p.running = true
	for i := 0; i < len(p.before); i++ {
		if err := p.before[i](cfg); err != nil {
			return err
		}
	}
	return nil
}

// run runs the operator until ctx ends.
func (p *parts) run(ctx context.Context, cfg Config) error {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = p.spans
	}
	if cfg.Election != nil {
		election := *cfg.Election
		if election.Lease.Name == "" {
			election.Lease.Name = p.name
		}
		cfg.Election = &election
	}
	m, err := manager.New(manager.Config{
		REST: cfg.REST, Scheme: p.scheme, Name: p.name, Log: cfg.Log, Trace: cfg.Trace,
		TracerProvider: cfg.TracerProvider,
		MetricsAddress: cfg.MetricsAddress, HealthAddress: cfg.HealthAddress, TraceAddress: cfg.TraceAddress,
		SecureMetrics: cfg.SecureMetrics, GracePeriod: cfg.GracePeriod, Election: cfg.Election, Webhooks: cfg.Webhooks,
		Plain: cfg.Plain, Informers: p.caches,
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Clusters)) {
		if _, err := m.Engage(name, cfg.Clusters[name]); err != nil {
			return err
		}
	}
	h := &host{Manager: m, name: p.name, election: cfg.Election, noWebhooks: cfg.NoWebhooks}
	for _, start := range p.start {
		if err := start(h); err != nil {
			return err
		}
	}
	deps := h.deps("")
	deps.Log = m.Log()
	for _, do := range p.ready {
		if err := do(ctx, deps); err != nil {
			return err
		}
	}
	release := time.AfterFunc(startupTime, releaseOnce)
	defer release.Stop()
	return m.Run(ctx)
}

const (
	// startupTime is the time after which an operator has started and no longer needs the memory of
	// its start.
	startupTime = 5 * time.Second
	// maxFilePages is the number of bytes of the program's file that may stay in memory after the
	// start.
	maxFilePages = 8 << 20
)

// releaseOnce releases memory that the start needed, if the process is the operator's own.
func releaseOnce() {
	if ownsProcess.Load() {
		releaseMemory()
	}
}

var (
	// ownsProcess is set by Main. A program that calls Run may do other work too, and then the
	// operator must not release its memory.
	ownsProcess   atomic.Bool
	releaseMemory = sync.OnceFunc(func() { footprint.Release(maxFilePages) })
)

// keepMemory is an environment variable. If it is "true", Main does not release memory.
const keepMemory = "KELSON_KEEP_MEMORY"

// defaultName returns the last element of the main package's path. It is the same in the package's
// tests.
func defaultName() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Path == "" || info.Path == "command-line-arguments" {
		return "operator"
	}
	return strings.TrimSuffix(path.Base(info.Path), ".test")
}
