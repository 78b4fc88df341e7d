package main

import (
	"errors"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/pki"
	"kelson.dev/kubernetes/controlplane"
)

// signingFlags say who signs the CertificateSigningRequests that are approved, by kube-controller-manager's names.
type signingFlags struct {
	certFile, keyFile string
}

func (o *signingFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.certFile, "cluster-signing-cert-file", "",
		"authority that signs approved CertificateSigningRequests (default: the control plane's own); what it signs counts if --client-ca-file names it too")
	f.StringVar(&o.keyFile, "cluster-signing-key-file", "", "key of --cluster-signing-cert-file")
}

// apply leaves the authority as it is if no flag names another.
func (o *signingFlags) apply(cfg *controlplane.Config) (err error) {
	if o.certFile == "" && o.keyFile == "" {
		return nil
	}
	if o.certFile == "" || o.keyFile == "" {
		return errors.New("--cluster-signing-cert-file and --cluster-signing-key-file: both are needed, or none")
	}
	cfg.Authority, err = pki.ReadAuthority(o.certFile, o.keyFile)
	return err
}
