package flags

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/pki"
	"kelson.dev/kubernetes/controlplane"
)

// Aggregation are the flags of requests to other API servers, with kube-apiserver's names.
type Aggregation struct {
	flags             *pflag.FlagSet // nil: AddFlags was not called
	certFile, keyFile string
	routing           bool
	rejectRedirects   bool
}

// AddFlags registers the flags.
func (o *Aggregation) AddFlags(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.certFile, "proxy-client-cert-file", "",
		"client certificate that identifies this server to the servers of APIServices; reloaded when it changes")
	f.StringVar(&o.keyFile, "proxy-client-key-file", "", "private key of --proxy-client-cert-file")
	f.BoolVar(&o.routing, "enable-aggregator-routing", true,
		"call the endpoints of the Services that APIServices and webhooks name; if false, their cluster IPs, which must then be routed")
	f.BoolVar(&o.rejectRedirects, "aggregator-reject-forwarding-redirect", true,
		"answer 502 if the server of an APIService redirects a request, instead of passing the redirect to the client")
}

// Apply validates the flags and copies them to cfg.
func (o *Aggregation) Apply(cfg *controlplane.Config) error {
	if o.flags == nil {
		return nil
	}
	if (o.certFile == "") != (o.keyFile == "") {
		return errors.New("--proxy-client-cert-file and --proxy-client-key-file must be given together")
	}
	cfg.Aggregation.ClusterIP, cfg.Aggregation.ForwardRedirects = !o.routing, !o.rejectRedirects
	if o.certFile == "" {
		return nil
	}
	certificate, err := pki.ClientFiles(o.certFile, o.keyFile)
	if err != nil {
		return fmt.Errorf("--proxy-client-cert-file: %w", err)
	}
	cfg.Aggregation.ProxyClient = certificate
	return nil
}
