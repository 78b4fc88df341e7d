package flags

import (
	"errors"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/pki"
	"kelson.dev/kubernetes/controlplane"
)

// Signing are the flags of the authority that signs approved CertificateSigningRequests, with
// kube-controller-manager's names.
type Signing struct {
	certFile, keyFile string
}

// AddFlags registers the flags.
func (o *Signing) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.certFile, "cluster-signing-cert-file", "",
		"certificate of the authority that signs approved CertificateSigningRequests (default: the control plane's own); the signed certificates authenticate only if --client-ca-file also has this authority")
	f.StringVar(&o.keyFile, "cluster-signing-key-file", "", "private key of --cluster-signing-cert-file")
}

// Apply sets the authority in cfg if the flags name one.
func (o *Signing) Apply(cfg *controlplane.Config) (err error) {
	if o.certFile == "" && o.keyFile == "" {
		return nil
	}
	if o.certFile == "" || o.keyFile == "" {
		return errors.New("--cluster-signing-cert-file and --cluster-signing-key-file must be given together")
	}
	cfg.Authority, err = pki.ReadAuthority(o.certFile, o.keyFile)
	return err
}
