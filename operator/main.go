package operator

import (
	"context"
	"crypto/tls"
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

	"kelson.dev/operator/client"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/trace"
	"kelson.dev/operator/webhook"
)

// Main runs an operator as a program. It parses the command line, finds the API server, and runs
// until SIGINT or SIGTERM; a second signal ends the process at once. Main exits with 0 after a
// clean stop, with 1 after an error, and with 2 after a wrong flag.
//
// The flags include those of a kubebuilder project's main. The environment variable
// ENABLE_WEBHOOKS=false disables webhooks.
//
// The address of the API server comes from --kubeconfig, else from the environment variable
// KUBECONFIG, else from the cluster in which the program runs, else from ~/.kube/config.
func Main(of ...Part) {
	ownsProcess.Store(os.Getenv(keepMemory) != "true")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // after the first signal, the default action applies again
	code := run(ctx, os.Args, os.Getenv, os.Stderr, of)
	stop()
	os.Exit(code)
}

// run is Main with its inputs as parameters and an exit code as its result.
func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer, of []Part) int {
	f, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	log := f.logger(stderr)
	cfg, err := f.config(getenv)
	if err != nil {
		log.Error("start operator", "err", err)
		return 1
	}
	cfg.Log = log
	traceFile, err := trace.Open(getenv(trace.Env))
	if err != nil {
		log.Error("open trace", "err", err)
		return 1
	}
	if traceFile != nil {
		defer func() { _ = traceFile.Close() }()
		cfg.Trace = trace.JSON(traceFile)
	}
	if cfg.REST, err = restConfig(f.kubeconfig, f.context, getenv); err != nil {
		log.Error("find API server", "err", err)
		return 1
	}
	log.Info("starting operator", "server", cfg.REST.Host)
	if err := Run(ctx, cfg, of...); err != nil {
		log.Error("operator failed", "err", err)
		return 1
	}
	log.Info("operator stopped")
	return 0
}

type flags struct {
	kubeconfig, context    string
	metrics, health, trace string
	grace                  time.Duration
	verbosity              int
	logFormat              string

	elect                            bool
	electionID, electionNamespace    string
	leaseDuration, renewDeadline     time.Duration
	retryPeriod                      time.Duration
	secureMetrics, http2             bool
	metricsCert, webhookCert         certFlags
	webhookAddress, webhookNamespace string
}

// certFlags holds the flags that name the files of a certificate.
type certFlags struct{ dir, cert, key string }

func parseFlags(args []string, stderr io.Writer) (*flags, error) {
	f := &flags{}
	set := flag.NewFlagSet(args[0], flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "`path` of a kubeconfig file; by default $KUBECONFIG, the cluster the program runs in, or ~/.kube/config")
	set.StringVar(&f.context, "context", "", "`name` of the kubeconfig's context to use")
	set.StringVar(&f.metrics, "metrics-bind-address", "", "`host:port` to serve metrics at; empty or 0: not served")
	set.StringVar(&f.health, "health-probe-bind-address", "", "`host:port` to serve /healthz and /readyz at; empty or 0: not served")
	set.StringVar(&f.trace, "trace-bind-address", "", "`host:port` to serve the trace of recent reconciles at, for kelson why; empty or 0: not served")
	set.StringVar(&f.trace, "account-bind-address", "", "deprecated: use -trace-bind-address")
	set.BoolVar(&f.secureMetrics, "metrics-secure", true, "serve metrics over TLS, only to clients that the API server authorizes to get /metrics")
	set.BoolVar(&f.elect, "leader-elect", false, "elect one of several replicas to run the controllers")
	set.StringVar(&f.electionID, "leader-election-id", "", "`name` of the election's Lease; by default the name of the operator")
	set.StringVar(&f.electionNamespace, "leader-election-namespace", "", "`namespace` of the election's Lease; by default that of the program's pod")
	set.DurationVar(&f.leaseDuration, "leader-election-lease-duration", 15*time.Second, "`time` after which other replicas may take over a Lease that is not renewed")
	set.DurationVar(&f.renewDeadline, "leader-election-renew-deadline", 10*time.Second, "`time` after which a leader that cannot renew its Lease stops leading")
	set.DurationVar(&f.retryPeriod, "leader-election-retry-period", 2*time.Second, "`time` between renewals")
	set.StringVar(&f.webhookAddress, "webhook-bind-address", ":9443", "`host:port` to serve webhooks at, if there are any")
	set.StringVar(&f.webhookNamespace, "webhook-namespace", "", "`namespace` of the webhooks' Service; by default that of the program's pod")
	for _, c := range []struct {
		name, what string
		into       *certFlags
	}{{"webhook", "webhooks", &f.webhookCert}, {"metrics", "metrics", &f.metricsCert}} {
		set.StringVar(&c.into.dir, c.name+"-cert-path", "", "`directory` with a certificate for "+c.what+" managed outside of the operator; by default the operator issues its own")
		set.StringVar(&c.into.cert, c.name+"-cert-name", "tls.crt", "`file` of the certificate in that directory")
		set.StringVar(&c.into.key, c.name+"-cert-key", "tls.key", "`file` of its key in that directory")
	}
	set.BoolVar(&f.http2, "enable-http2", false, "serve metrics and webhooks over HTTP/2 too")
	set.DurationVar(&f.grace, "graceful-shutdown-timeout", 30*time.Second, "`time` that running reconciles have to finish on shutdown")
	set.IntVar(&f.verbosity, "v", 0, "`level` of the log: 0 info, 1 debug, -1 warnings, -2 errors only")
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
	for _, address := range []*string{&f.metrics, &f.health, &f.trace} {
		if *address == "0" {
			*address = ""
		}
	}
	return f, nil
}

// localWebhooks is an environment variable. If it is "true", the API server runs on this machine
// and calls the operator's webhooks over loopback; see manager.WebhookConfig.Local.
const localWebhooks = "KELSON_LOCAL_WEBHOOKS"

// config returns the Config that the flags describe.
func (f *flags) config(getenv func(string) string) (Config, error) {
	cfg := Config{
		MetricsAddress: f.metrics, HealthAddress: f.health, TraceAddress: f.trace, GracePeriod: f.grace,
		NoWebhooks: getenv("ENABLE_WEBHOOKS") == "false",
	}
	protocols := func(c *tls.Config) {
		if !f.http2 {
			c.NextProtos = []string{"http/1.1"}
		}
	}
	cfg.Webhooks = manager.WebhookConfig{
		Address: f.webhookAddress, CertDir: f.webhookCert.dir, CertName: f.webhookCert.cert, KeyName: f.webhookCert.key,
		Namespace: f.webhookNamespace, TLS: protocols,
	}
	if getenv(localWebhooks) == "true" {
		cfg.Webhooks.Local, cfg.Webhooks.Address = true, "127.0.0.1:0"
	}
	if f.secureMetrics && f.metrics != "" {
		cfg.SecureMetrics = &manager.SecureMetrics{TLS: protocols}
		if f.metricsCert.dir != "" {
			certificates, err := webhook.NewDirectory(f.metricsCert.dir, f.metricsCert.cert, f.metricsCert.key)
			if err != nil {
				return cfg, err
			}
			cfg.SecureMetrics.Certificates = certificates
		}
	}
	if f.elect {
		cfg.Election = &leader.Config{
			Lease:    client.Key{Namespace: f.electionNamespace, Name: f.electionID},
			Duration: f.leaseDuration, RenewDeadline: f.renewDeadline, RetryPeriod: f.retryPeriod,
		}
	}
	return cfg, nil
}

func (f *flags) logger(stderr io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo - slog.Level(4*f.verbosity)}
	if f.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(stderr, opts))
	}
	return slog.New(slog.NewTextHandler(stderr, opts))
}

// restConfig locates the API server and loads its credentials.
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
