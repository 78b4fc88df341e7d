package operator

import (
	"context"
	"log/slog"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/footprint"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/trace"
)

// Config is what an operator is run with.
type Config struct {
	// REST says where the API server is; required.
	REST *rest.Config
	// Log is where the operator tells what it does; slog.Default() if nil.
	Log *slog.Logger
	// Trace, if any, gets the account of each reconcile.
	Trace trace.Sink
	// TracerProvider, if any, makes OpenTelemetry spans of reconciles and their writes.
	TracerProvider oteltrace.TracerProvider
	// MetricsAddress and HealthAddress are host:port to serve metrics and probes at, AccountAddress to serve the account of the
	// latest reconciles at, as kelson why reads it. Empty: not served.
	MetricsAddress, HealthAddress, AccountAddress string
	// SecureMetrics has metrics served over TLS, to those only who may have them.
	SecureMetrics *manager.SecureMetrics
	// GracePeriod bounds how long a stop takes; 30 s if zero.
	GracePeriod time.Duration
	// Election, if any, has one of several replicas run the controllers. Its Lease is named after the operator if it has no name.
	Election *leader.Config
	// Webhooks says how webhooks are served, if there are any; NoWebhooks leaves them out.
	Webhooks   manager.WebhookConfig
	NoWebhooks bool
	// NetHTTP has net/http send all requests, also small writes: see client.Config.
	NetHTTP bool
	// Clusters are further clusters that the controllers look after, by the names that their requests carry. Those that come and go
	// while the operator runs are those of a Provider.
	Clusters map[string]*rest.Config
}

// Run runs an operator until ctx ends, and returns when all of it has stopped. It is nil when that went well.
func Run(ctx context.Context, cfg Config, of ...Part) error {
	p := &parts{name: defaultName(), scheme: runtime.NewScheme()}
	metav1.AddToGroupVersion(p.scheme, schema.GroupVersion{Version: "v1"})
	for _, part := range of {
		if err := part.install(p); err != nil {
			return err
		}
	}
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
		REST: cfg.REST, Scheme: p.scheme, Name: p.name, Log: cfg.Log, Trace: cfg.Trace, TracerProvider: cfg.TracerProvider,
		MetricsAddress: cfg.MetricsAddress, HealthAddress: cfg.HealthAddress, AccountAddress: cfg.AccountAddress,
		SecureMetrics: cfg.SecureMetrics, GracePeriod: cfg.GracePeriod, Election: cfg.Election, Webhooks: cfg.Webhooks, NetHTTP: cfg.NetHTTP, Informers: p.caches,
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
	settled := time.AfterFunc(settling, releaseOnce)
	defer settled.Stop()
	return m.Run(ctx)
}

const (
	// settling is after how long an operator has started, and needs no longer what it needed for that.
	settling = 5 * time.Second
	// manyPages is how much of the program's file may stay in memory then.
	manyPages = 8 << 20
)

// releaseOnce is for the first operator of a process: tests have many.
var releaseOnce = sync.OnceFunc(func() { footprint.Release(manyPages) })

// defaultName is the last element of the main package's path. It is the same in the package's tests.
func defaultName() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Path == "" || info.Path == "command-line-arguments" {
		return "operator"
	}
	return strings.TrimSuffix(path.Base(info.Path), ".test")
}
