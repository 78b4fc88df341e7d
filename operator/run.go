package operator

import (
	"context"
	"log/slog"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

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
	// MetricsAddress and HealthAddress are host:port to serve metrics and probes at. Empty: not served.
	MetricsAddress, HealthAddress string
	// GracePeriod bounds how long a stop takes; 30 s if zero.
	GracePeriod time.Duration
}

// Run runs an operator until ctx ends, and returns when all of it has stopped. It is nil when that went well.
func Run(ctx context.Context, cfg Config, of ...Part) error {
	p := &parts{name: defaultName(), scheme: runtime.NewScheme()}
	if err := scheme.AddToScheme(p.scheme); err != nil {
		return err
	}
	for _, part := range of {
		if err := part.install(p); err != nil {
			return err
		}
	}
	m, err := manager.New(manager.Config{
		REST: cfg.REST, Scheme: p.scheme, Name: p.name, Log: cfg.Log, Trace: cfg.Trace,
		MetricsAddress: cfg.MetricsAddress, HealthAddress: cfg.HealthAddress, GracePeriod: cfg.GracePeriod,
	})
	if err != nil {
		return err
	}
	for _, start := range p.start {
		if err := start(&host{m}); err != nil {
			return err
		}
	}
	return m.Run(ctx)
}

// defaultName is the last element of the main package's path. It is the same in the package's tests.
func defaultName() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Path == "" || info.Path == "command-line-arguments" {
		return "operator"
	}
	return strings.TrimSuffix(path.Base(info.Path), ".test")
}
