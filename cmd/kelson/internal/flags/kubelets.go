package flags

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"kelson.dev/apiserver/pki"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controlplane"
)

// Kubelets are the flags of connections to the kubelets of nodes, with kube-apiserver's names.
type Kubelets struct {
	// Preferred are the default of --kubelet-preferred-address-types; nil means kube-apiserver's.
	Preferred []corev1.NodeAddressType

	flags                        *pflag.FlagSet // nil: AddFlags was not called
	certFile, keyFile, authority string
	addressTypes                 []string
	port                         uint16
}

// AddFlags registers the flags.
func (o *Kubelets) AddFlags(f *pflag.FlagSet) {
	o.flags = f
	var preferred []string
	if o.Preferred == nil {
		o.Preferred = builtin.DefaultKubeletAddressTypes()
	}
	for _, t := range o.Preferred {
		preferred = append(preferred, string(t))
	}
	f.StringVar(&o.authority, "kubelet-certificate-authority", "",
		"file with the authorities that verify the serving certificates of kubelets (default: kelson serve with --enable-bootstrap-token-auth uses its own authority; otherwise any certificate is accepted)")
	f.StringVar(&o.certFile, "kubelet-client-certificate", "",
		"client certificate that identifies this server to kubelets; reloaded when it changes")
	f.StringVar(&o.keyFile, "kubelet-client-key", "", "private key of --kubelet-client-certificate")
	f.StringSliceVar(&o.addressTypes, "kubelet-preferred-address-types", preferred,
		"types of node addresses at which kubelets are called, preferred types first")
	f.Uint16Var(&o.port, "kubelet-port", 10250, "port of kubelets whose Node object does not name one")
}

// Apply validates the flags and copies them to cfg.
func (o *Kubelets) Apply(cfg *controlplane.Config) error {
	if o.flags == nil {
		return nil
	}
	if (o.certFile == "") != (o.keyFile == "") {
		return errors.New("--kubelet-client-certificate and --kubelet-client-key must be given together")
	}
	cfg.Kubelets.Port = o.port
	cfg.Kubelets.AddressTypes = nil
	for _, t := range o.addressTypes {
		cfg.Kubelets.AddressTypes = append(cfg.Kubelets.AddressTypes, corev1.NodeAddressType(t))
	}
	if o.certFile != "" {
		certificate, err := pki.ClientFiles(o.certFile, o.keyFile)
		if err != nil {
			return fmt.Errorf("--kubelet-client-certificate: %w", err)
		}
		cfg.Kubelets.Certificate = certificate
	}
	if o.authority == "" {
		return nil
	}
	bundle, err := os.ReadFile(o.authority)
	if err != nil {
		return fmt.Errorf("--kubelet-certificate-authority: %w", err)
	}
	cfg.Kubelets.Authorities = x509.NewCertPool()
	if !cfg.Kubelets.Authorities.AppendCertsFromPEM(bundle) {
		return fmt.Errorf("--kubelet-certificate-authority: %s has no certificate", o.authority)
	}
	return nil
}
