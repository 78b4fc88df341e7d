package pki

import (
	"crypto/x509"
	"testing"
	"time"
)

// Certificates are replaced when the clock is set to a time at which they are not valid.
func TestCertificatesWhenTheClockIsSet(t *testing.T) {
	now := time.Now()
	leaf := &x509.Certificate{NotBefore: now.Add(-backdate), NotAfter: now.Add(leafLifetime)}
	for jump, want := range map[time.Duration]bool{0: true, -time.Minute: true, -time.Hour: false, leafLifetime: false, leafLifetime - renewBefore: false, leafLifetime / 2: true} {
		if got := usable(leaf, now.Add(jump)); got != want {
			t.Errorf("clock set by %s: %v, want %v", jump, got, want)
		}
	}
}
