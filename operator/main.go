package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/operator/trace"
)

// Main runs an operator as a program: it reads the command line, finds the API server, and runs until a signal ends it (SIGINT or
// SIGTERM; a second one ends it at once). It exits with 0 when all has stopped in time, 1 after an error, 2 after a wrong flag.
//
// The API server is that of --kubeconfig, else of the environment variable KUBECONFIG, else the one of the cluster that the program runs
// in, else of ~/.kube/config.
func Main(of ...Part) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal finds nobody listening, and ends the process
	code := run(ctx, os.Args, os.Getenv, os.Stderr, of)
	stop()
	os.Exit(code)
}

// run is Main without a process.
func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer, of []Part) int {
	f, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	log := f.logger(stderr)
	cfg := Config{Log: log, MetricsAddress: f.metrics, HealthAddress: f.health, GracePeriod: f.grace}
	account, err := trace.Open(getenv(trace.Env))
	if err != nil {
		log.Error("the operator could not start", "err", err)
		return 1
	}
	if account != nil {
		defer func() { _ = account.Close() }()
		cfg.Trace = trace.JSON(account)
	}
	if cfg.REST, err = restConfig(f.kubeconfig, f.context, getenv); err != nil {
		log.Error("the operator found no API server", "err", err)
		return 1
	}
	log.Info("the operator starts", "server", cfg.REST.Host)
	if err := Run(ctx, cfg, of...); err != nil {
		log.Error("the operator failed", "err", err)
		return 1
	}
	log.Info("the operator has stopped")
	return 0
}

type flags struct {
	kubeconfig, context string
	metrics, health     string
	grace               time.Duration
	verbosity           int
	logFormat           string
}

func parseFlags(args []string, stderr io.Writer) (*flags, error) {
	f := &flags{}
	set := flag.NewFlagSet(args[0], flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "`path` of a kubeconfig file; by default $KUBECONFIG, the cluster the program runs in, or ~/.kube/config")
	set.StringVar(&f.context, "context", "", "`name` of the kubeconfig's context to use")
	set.StringVar(&f.metrics, "metrics-bind-address", "", "`host:port` to serve metrics at; empty or 0: not served")
	set.StringVar(&f.health, "health-probe-bind-address", "", "`host:port` to serve /healthz and /readyz at; empty or 0: not served")
	set.DurationVar(&f.grace, "graceful-shutdown-timeout", 30*time.Second, "`time` that reconciles have to end when the program is stopped")
	set.IntVar(&f.verbosity, "v", 0, "`level` of the log: 0 tells what matters, 1 also details, negative ones only warnings (-1) or errors (-2)")
	set.StringVar(&f.logFormat, "log-format", "text", "`format` of the log: text or json")
	if err := set.Parse(args[1:]); err != nil {
		return nil, err
	}
	wrong := func(format string, args ...any) (*flags, error) {
		err := fmt.Errorf(format, args...)
		fmt.Fprintln(stderr, err)
		set.Usage()
		return nil, err
	}
	if set.NArg() > 0 {
		return wrong("unexpected argument %q", set.Arg(0))
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		return wrong("invalid value %q for flag -log-format: want text or json", f.logFormat)
	}
	for _, address := range []*string{&f.metrics, &f.health} {
		if *address == "0" {
			*address = ""
		}
	}
	return f, nil
}

func (f *flags) logger(stderr io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo - slog.Level(4*f.verbosity)}
	if f.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(stderr, opts))
	}
	return slog.New(slog.NewTextHandler(stderr, opts))
}

// restConfig finds the API server.
func restConfig(kubeconfig, contextName string, getenv func(string) string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	if kubeconfig == "" && contextName == "" && getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		cfg, err := rest.InClusterConfig()
		if err == nil || !errors.Is(err, rest.ErrNotInCluster) {
			return cfg, err
		}
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: contextName}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
}
