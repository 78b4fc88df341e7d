package operator

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"time"

	"kelson.dev/operator/client"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/webhook"
)

// Flags adds flags to the command line that Main parses. register defines them, for example
//
//	var workers int
//	operator.Flags(func(set *flag.FlagSet) {
//		set.IntVar(&workers, "workers", 4, "`number` of concurrent reconciles")
//	})
//
// and can be a function of another package, such as klog.InitFlags. The values are known in the
// functions passed to Configure, Parts and Setup, and in constructors, but not when the arguments
// of Main are evaluated: use Parts for options that depend on flags. Run parses no command line;
// the flags then have their default values.
//
// Main also parses the flags in flag.CommandLine. A flag with the name of one of Main's own flags
// sets both, and its default value becomes that of Main's flag. So an operator can change the
// default of a flag, and flags of other packages that have the same name, such as -v, work.
func Flags(register func(set *flag.FlagSet)) Part {
	return partFunc(func(p *parts) error {
		if p.running {
			return errors.New("operator.Flags is among the parts that operator.Parts returned: pass it to Main, because the command line is already parsed")
		}
		p.flags = append(p.flags, register)
		return nil
	})
}

// flags are the flags of Main.
type flags struct {
	log                    logFlags
	kubeconfig, context    string
	metrics, health, trace string
	grace                  time.Duration

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

func (f *flags) register(set *flag.FlagSet) {
	f.log.register(set)
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"`path` of a kubeconfig file; by default $KUBECONFIG, the cluster the program runs in, or ~/.kube/config")
	set.StringVar(&f.context, "context", "", "`name` of the kubeconfig's context to use")
	set.StringVar(&f.metrics, "metrics-bind-address", "", "`host:port` to serve metrics at; empty or 0: not served")
	set.StringVar(&f.health, "health-probe-bind-address", "",
		"`host:port` to serve /healthz and /readyz at; empty or 0: not served")
	set.StringVar(&f.trace, "trace-bind-address", "",
		"`host:port` to serve the trace of recent reconciles at, for kelson why; empty or 0: not served")
	set.StringVar(&f.trace, "account-bind-address", "", "deprecated: use -trace-bind-address")
	set.BoolVar(&f.secureMetrics, "metrics-secure", true,
		"serve metrics over TLS, only to clients that the API server authorizes to get /metrics")
	set.BoolVar(&f.elect, "leader-elect", false, "elect one of several replicas to run the controllers")
	set.StringVar(&f.electionID, "leader-election-id", "",
		"`name` of the election's Lease; by default the name of the operator")
	set.StringVar(&f.electionNamespace, "leader-election-namespace", "",
		"`namespace` of the election's Lease; by default that of the program's pod")
	set.DurationVar(&f.leaseDuration, "leader-election-lease-duration", 15*time.Second,
		"`time` after which other replicas may take over a Lease that is not renewed")
	set.DurationVar(&f.renewDeadline, "leader-election-renew-deadline", 10*time.Second,
		"`time` after which a leader that cannot renew its Lease stops leading")
	set.DurationVar(&f.retryPeriod, "leader-election-retry-period", 2*time.Second, "`time` between renewals")
	set.StringVar(&f.webhookAddress, "webhook-bind-address", ":9443",
		"`host:port` to serve webhooks at, if there are any")
	set.StringVar(&f.webhookNamespace, "webhook-namespace", "",
		"`namespace` of the webhooks' Service; by default that of the program's pod")
	for _, c := range []struct {
		name, what string
		into       *certFlags
	}{{"webhook", "webhooks", &f.webhookCert}, {"metrics", "metrics", &f.metricsCert}} {
		set.StringVar(&c.into.dir, c.name+"-cert-path", "",
			"`directory` with a certificate for "+c.what+
				" managed outside of the operator; by default the operator issues its own")
		set.StringVar(&c.into.cert, c.name+"-cert-name", "tls.crt", "`file` of the certificate in that directory")
		set.StringVar(&c.into.key, c.name+"-cert-key", "tls.key", "`file` of its key in that directory")
	}
	set.BoolVar(&f.http2, "enable-http2", false, "serve metrics and webhooks over HTTP/2 too")
	set.DurationVar(&f.grace, "graceful-shutdown-timeout", 30*time.Second,
		"`time` that running reconciles have to finish on shutdown")
}

// parse parses args with the flags of Main, those in set, and those that more registers. It writes
// errors and the usage to the output of set.
func (f *flags) parse(set *flag.FlagSet, args []string, more []func(*flag.FlagSet)) error {
	set.Init(args[0], flag.ContinueOnError)
	wrong := func(err error) error {
		fmt.Fprintln(set.Output(), err)
		set.Usage()
		return err
	}
	if set.Usage == nil {
		set.Usage = func() {
			fmt.Fprintf(set.Output(), "Usage of %s:\n", args[0])
			set.PrintDefaults()
		}
	}
	for _, register := range more {
		register(set)
	}
	ownFlags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.register(ownFlags)
	if err := addFlags(set, ownFlags); err != nil {
		return wrong(err)
	}
	f.log.keepDefaults()
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return wrong(fmt.Errorf("unexpected argument %q", set.Arg(0)))
	}
	for _, address := range []*string{&f.metrics, &f.health, &f.trace} {
		if *address == "0" {
			*address = ""
		}
	}
	return nil
}

// addFlags adds the flags of own to set. A flag that set already has then sets both, and its
// default becomes the default of the flag in own.
func addFlags(set, own *flag.FlagSet) error {
	var errs []error
	own.VisitAll(func(o *flag.Flag) {
		given := set.Lookup(o.Name)
		if given == nil {
			set.Var(o.Value, o.Name, o.Usage)
			return
		}
		if given.DefValue != "" && given.DefValue != o.DefValue {
			if err := o.Value.Set(given.DefValue); err != nil {
				errs = append(errs, fmt.Errorf("default value %q of flag -%s: %w", given.DefValue, o.Name, err))
			}
		}
		given.Value = bothValues{given.Value, o.Value}
	})
	return errors.Join(errs...)
}

// bothValues is the value of two flags with the same name. It shows the value of the first.
type bothValues struct {
	flag.Value
	own flag.Value
}

func (v bothValues) Set(text string) error {
	return errors.Join(v.Value.Set(text), v.own.Set(text))
}

// String is also called on the zero value.
func (v bothValues) String() string {
	if v.Value == nil {
		return ""
	}
	return v.Value.String()
}

// IsBoolFlag reports whether the flag needs no value.
func (v bothValues) IsBoolFlag() bool {
	b, ok := v.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// Get returns the value of the first flag; nil if it has no such method.
func (v bothValues) Get() any {
	if g, ok := v.Value.(flag.Getter); ok {
		return g.Get()
	}
	return nil
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
	if f.secureMetrics { // even without an address, because Configure may set one
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
