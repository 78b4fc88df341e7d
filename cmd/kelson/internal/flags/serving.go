package flags

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"

	"kelson.dev/apiserver/serving"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/plugins"
)

// Serving are the flags of how requests are served, with kube-apiserver's names.
type Serving struct {
	requestTimeout time.Duration
	eventLifetime  time.Duration
	shutdownDelay  time.Duration
	minTLS         string
	ciphers        []string
	features       cliflag.ConfigurationMap
	runtimeConfig  cliflag.ConfigurationMap
	apis           *builtin.APIs // nil: all stable versions; set by Check
	version        versionFlags
	nodePorts      string
	watchSeconds   int
	logFormat      string
	transport      transport
}

// AddFlags registers the flags.
func (o *Serving) AddFlags(f *pflag.FlagSet) {
	o.features = cliflag.ConfigurationMap{}
	f.DurationVar(&o.requestTimeout, "request-timeout", time.Minute,
		"timeout of requests other than watches and other long-running ones")
	f.IntVar(&o.watchSeconds, "min-request-timeout", 1800,
		"minimum duration, in seconds, of watches whose clients set no timeout; the maximum is twice that")
	f.DurationVar(&o.eventLifetime, "event-ttl", time.Hour, "how long Events are kept")
	f.DurationVar(&o.shutdownDelay, "shutdown-delay-duration", 0,
		"how long to continue to accept requests after SIGTERM, before the drain begins")
	f.StringVar(&o.minTLS, "tls-min-version", "", "lowest TLS version: "+
		strings.Join(cliflag.TLSPossibleVersions(), " or ")+" (default VersionTLS12)")
	f.StringSliceVar(&o.ciphers, "tls-cipher-suites", nil,
		"cipher suites of TLS 1.2, by their IANA names (default: Go's)")
	f.Var(&o.features, "feature-gates", "Kubernetes' feature gates: name=true|false,…; they apply to the whole process")
	o.runtimeConfig = cliflag.ConfigurationMap{}
	f.Var(&o.runtimeConfig, "runtime-config",
		"which built-in APIs are served: api/all, api/ga, api/beta, api/alpha, GROUP/VERSION or GROUP/VERSION/RESOURCE =true|false,…; by default all stable versions")
	f.StringVar(&o.nodePorts, "service-node-port-range", builtin.DefaultNodePorts,
		"range of the node ports of Services, first and last included")
	f.StringVar(&o.logFormat, "logging-format", "text", "format of the log: text or json")
	o.version.addFlags(f)
	o.transport.addFlags(f)
	plugins.AddFlags(f)
}

// Check validates the flags and sets the emulated version and the feature gates of the process.
func (o *Serving) Check() error {
	if o.requestTimeout <= 0 {
		return errors.New("--request-timeout must be positive")
	}
	if o.shutdownDelay < 0 {
		return errors.New("--shutdown-delay-duration can not be negative value")
	}
	if o.watchSeconds < 0 {
		return errors.New("--min-request-timeout can not be negative value")
	}
	if o.logFormat != "text" && o.logFormat != "json" {
		return fmt.Errorf("--logging-format: Invalid value: %q: Unsupported log format: must be text or json",
			o.logFormat)
	}
	if err := o.transport.check(); err != nil {
		return err
	}
	if o.eventLifetime <= 0 {
		return errors.New("--event-ttl must be positive")
	}
	if _, err := cliflag.TLSVersion(o.minTLS); err != nil {
		return fmt.Errorf("--tls-min-version: %w", err)
	}
	if _, err := cliflag.TLSCipherSuites(o.ciphers); err != nil {
		return fmt.Errorf("--tls-cipher-suites: %w", err)
	}
	gates := map[string]string{}
	for name, value := range o.features {
		gates[strings.TrimPrefix(name, "kube:")] = value // the component that the gate belongs to
	}
	if err := o.version.use(); err != nil {
		return err
	}
	if err := setFeatures(gates); err != nil {
		return err
	}
	ports, err := utilnet.ParsePortRange(o.nodePorts)
	if err != nil {
		return fmt.Errorf("--service-node-port-range: %w", err)
	}
	if ports.Size == 0 {
		return errors.New("--service-node-port-range must not be empty")
	}
	if len(o.runtimeConfig) > 0 {
		if o.apis, err = builtin.ParseAPIs(o.runtimeConfig); err != nil {
			return fmt.Errorf("--runtime-config: %w", err)
		}
	}
	return nil
}

// setFeatures sets gates of Kubernetes' registry, which is one per process.
func setFeatures(gates map[string]string) error {
	if len(gates) == 0 {
		return nil
	}
	var pairs []string
	for name, value := range gates {
		pairs = append(pairs, name+"="+value)
	}
	return utilfeature.DefaultMutableFeatureGate.Set(strings.Join(pairs, ","))
}

// Apply copies the flags to cfg.
func (o *Serving) Apply(cfg *controlplane.Config) {
	cfg.RequestTimeout, cfg.EventLifetime = o.requestTimeout, o.eventLifetime
	cfg.APIs, cfg.NodePorts = o.apis, o.nodePorts
	o.ApplyVersion(cfg)
	cfg.WatchTimeout = max(time.Duration(o.watchSeconds)*time.Second, time.Second)
}

// JSONLog reports whether the log's format is JSON.
func (o *Serving) JSONLog() bool { return o.logFormat == "json" }

// Listen listens on an address with the options of the flags.
func (o *Serving) Listen(address string) (net.Listener, error) {
	return serving.ListenSharing(address, o.transport.listening())
}

// ApplyServer copies the flags to the configuration of the listener. Check has accepted them.
func (o *Serving) ApplyServer(cfg *serving.Config) error {
	cfg.RequestTimeout, cfg.Delay = o.requestTimeout, o.shutdownDelay
	if o.minTLS != "" {
		cfg.MinTLS, _ = cliflag.TLSVersion(o.minTLS)
	}
	cfg.CipherSuites, _ = cliflag.TLSCipherSuites(o.ciphers)
	if len(o.ciphers) == 0 || cfg.MinTLS == tls.VersionTLS13 { // the suites of TLS 1.3 are fixed
		cfg.CipherSuites = nil
	}
	return o.transport.apply(cfg)
}
