package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Certificates are replaced when the clock is set to a time at which they are not valid.
func TestCertificatesWhenTheClockIsSet(t *testing.T) {
	now := time.Now()
	leaf := &x509.Certificate{NotBefore: now.Add(-backdate), NotAfter: now.Add(leafLifetime)}
	for jump, want := range map[time.Duration]bool{0: true, -time.Minute: true, -backdate - time.Hour: false,
		leafLifetime: false, leafLifetime - renewBefore: false, leafLifetime / 2: true} {
		assert.Equalf(t, usable(leaf, now.Add(jump)), want, "clock set by %s", jump)
	}
}

// Certificates stay valid when the clock is set to that of another time zone.
func TestCertificatesInAnotherTimeZone(t *testing.T) {
	authority, err := NewAuthority("ca")
	require.NoError(t, err)
	client, clientErr := authority.Client("admin")
	server, serverErr := authority.Server("localhost")
	require.NoError(t, errors.Join(clientErr, serverErr))
	for name, certPEM := range map[string][]byte{"authority": authority.PEM, "client": client.CertPEM,
		"server": server.CertPEM} {
		block, _ := pem.Decode(certPEM)
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		for _, zone := range []time.Duration{-14 * time.Hour, 14 * time.Hour} {
			_, err := cert.Verify(x509.VerifyOptions{
				Roots: authority.Pool(), CurrentTime: time.Now().Add(zone),
				KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
			})
			assert.NoErrorf(t, err, "certificate of the %s, clock set by %s", name, zone)
		}
	}
}
