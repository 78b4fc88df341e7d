package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// keepAnswered is how long requests are kept after they were issued, denied or failed. keepOpen is
// how long requests are kept while they wait for a decision or a certificate.
const (
	keepAnswered = time.Hour
	keepOpen     = 24 * time.Hour
)

// due returns when a request can be deleted. ok is false if no rule applies.
func due(csr *certificatesv1.CertificateSigningRequest) (at time.Time, ok bool) {
	add := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if len(csr.Status.Conditions) == 0 {
		add(csr.CreationTimestamp.Add(keepOpen))
	}
	issued := len(csr.Status.Certificate) > 0
	for _, c := range csr.Status.Conditions {
		approved := c.Type == certificatesv1.CertificateApproved
		if end := expires(csr.Status.Certificate); approved && !end.IsZero() {
			add(end)
		}
		switch {
		case c.LastUpdateTime.IsZero():
		case approved && !issued:
			add(c.LastUpdateTime.Add(keepOpen))
		case approved, c.Type == certificatesv1.CertificateDenied, c.Type == certificatesv1.CertificateFailed:
			add(c.LastUpdateTime.Add(keepAnswered))
		}
	}
	return at, ok
}

// expires returns when the first certificate of a PEM chain expires, or the zero time if there is
// none.
func expires(chain []byte) time.Time {
	block, _ := pem.Decode(chain)
	if block == nil {
		return time.Time{}
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return cert.NotAfter
}

func holds(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	for _, c := range csr.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
