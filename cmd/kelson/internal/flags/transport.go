package flags

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/pflag"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	cliflag "k8s.io/component-base/cli/flag"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
)

// transport are the flags of connections and of headers that do not depend on the request's path,
// with kube-apiserver's names.
type transport struct {
	certificates []cliflag.NamedCertKey
	curves       []int32
	noHTTP2      bool
	streams      int
	goaway       float64
	origins      []string
	hsts         []string
	contention   bool
	sharePort    bool
	shareAddress bool
}

func (o *transport) addFlags(f *pflag.FlagSet) {
	f.Var(cliflag.NewNamedCertKeyArray(&o.certificates), "tls-sni-cert-key",
		"certificate and key files for clients that ask for certain names: cert,key or cert,key:name,*.name; by default the names in the certificate; can be repeated")
	f.Int32SliceVar(&o.curves, "tls-curve-preferences", nil,
		"key exchange mechanisms of TLS, as numbers of Go's tls.CurveID (default: Go's)")
	f.BoolVar(&o.noHTTP2, "disable-http2-serving", false, "serve HTTP/1.1 only")
	f.IntVar(&o.streams, "http2-max-streams-per-connection", 0,
		"maximum number of streams per HTTP/2 connection; 0 means 1000")
	f.Float64Var(&o.goaway, "goaway-chance", 0,
		"fraction of the requests, at most 0.02, after which an HTTP/2 client must connect again, so that a load balancer can choose another server")
	f.StringSliceVar(&o.origins, "cors-allowed-origins", nil,
		"regular expressions of the origins whose scripts may call this server; an empty list turns CORS off")
	f.StringSliceVar(&o.hsts, "strict-transport-security-directives", nil,
		"directives of the header Strict-Transport-Security; an empty list omits the header")
	f.BoolVar(&o.contention, "contention-profiling", false,
		"record lock contention for /debug/pprof/block, if profiling is on")
	f.BoolVar(&o.sharePort, "permit-port-sharing", false,
		"set SO_REUSEPORT, so that several servers can listen on the port")
	f.BoolVar(&o.shareAddress, "permit-address-sharing", false, "set SO_REUSEADDR when listening")
}

// check validates the flags, with kube-apiserver's errors.
func (o *transport) check() error {
	for _, c := range o.certificates {
		if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
			return fmt.Errorf("--tls-sni-cert-key: failed to load SNI cert and key: %w", err)
		}
	}
	if _, err := cliflag.TLSCurvePreferences(o.curves); err != nil {
		return fmt.Errorf("--tls-curve-preferences: %w", err)
	}
	if o.goaway < 0 || o.goaway > 0.02 {
		return errors.New("--goaway-chance can not be less than 0 or greater than 0.02")
	}
	if o.streams < 0 {
		return errors.New("--http2-max-streams-per-connection can not be a negative value")
	}
	for _, origin := range o.origins {
		if !strings.HasPrefix(origin, "^") && !strings.HasPrefix(origin, "//") && !strings.Contains(origin, "://") {
			return fmt.Errorf("--cors-allowed-origins has an invalid value %q: it must start with \"^\" or \"//\", or contain \"://\"", origin)
		}
		if _, err := regexp.Compile(origin); err != nil {
			return fmt.Errorf("--cors-allowed-origins: %w", err)
		}
	}
	for _, directive := range o.hsts {
		if !strings.HasPrefix(directive, "max-age=") && directive != "includeSubDomains" && directive != "preload" {
			return fmt.Errorf("--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information")
		}
	}
	return nil
}

// listening returns the configuration of the listener.
func (o *transport) listening() serving.Sharing {
	return serving.Sharing{Port: o.sharePort, Address: o.shareAddress}
}

// apply copies the flags to the configuration of the listener. check has accepted them.
func (o *transport) apply(cfg *serving.Config) error {
	var named []pki.Named
	for _, c := range o.certificates {
		pair, err := pki.LoadNamed(c.CertFile, c.KeyFile, c.Names...)
		if err != nil {
			return fmt.Errorf("--tls-sni-cert-key: %w", err)
		}
		named = append(named, pair)
	}
	cfg.Certificate = pki.ByName(named, cfg.Certificate)
	cfg.Curves, _ = cliflag.TLSCurvePreferences(o.curves)
	cfg.NoHTTP2, cfg.MaxStreams = o.noHTTP2, o.streams
	if o.contention {
		runtime.SetBlockProfileRate(1)
	}
	cfg.Handler = o.wrap(cfg.Handler)
	return nil
}

// wrap adds the headers that the flags ask for, in kube-apiserver's order.
func (o *transport) wrap(h http.Handler) http.Handler {
	if len(o.origins) > 0 {
		h = genericfilters.WithCORS(h, o.origins, nil, nil, nil, "true")
	}
	if len(o.hsts) > 0 {
		h = genericfilters.WithHSTS(h, o.hsts)
	}
	if o.goaway > 0 {
		h = genericfilters.WithProbabilisticGoaway(h, o.goaway)
	}
	return h
}
