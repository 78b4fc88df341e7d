package certificates

import (
	"crypto/x509"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/apis/certificates"
)

// signers maps the supported signer names to functions that check whether the signer may issue the
// requested certificate.
var signers = map[string]func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientSignerName: func(_ *x509.CertificateRequest,
		usages []certificatesv1.KeyUsage) error {
		return clientUsages(usages)
	},
	certificatesv1.KubeAPIServerClientKubeletSignerName: func(request *x509.CertificateRequest,
		usages []certificatesv1.KeyUsage) error {
		return certificates.ValidateKubeletClientCSR(request, names(usages))
	},
	certificatesv1.KubeletServingSignerName: func(request *x509.CertificateRequest,
		usages []certificatesv1.KeyUsage) error {
		return certificates.ValidateKubeletServingCSR(request, names(usages))
	},
	certificatesv1beta1.LegacyUnknownSignerName: func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error {
		return nil
	},
}

// clientUsages checks the usages of a client certificate for the API server.
func clientUsages(usages []certificatesv1.KeyUsage) error {
	client := false
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageClientAuth:
			client = true
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", usage)
		}
	}
	if !client {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

func names(usages []certificatesv1.KeyUsage) sets.String {
	set := sets.NewString()
	for _, usage := range usages {
		set.Insert(string(usage))
	}
	return set
}
