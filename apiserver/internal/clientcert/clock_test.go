package clientcert

import (
	"crypto/x509"
	"testing"
	"time"

	"kelson.dev/internal/assert"
)

// The cached user of a certificate is used only while the certificate is valid, even if the clock
// is set during the minute of caching.
func TestVerdictWhenTheClockIsSet(t *testing.T) {
	now, by := time.Now(), x509.NewCertPool()
	v := verdict[string]{authorities: by, until: now.Add(cacheFor), from: now.Add(-time.Hour), to: now.Add(time.Hour)}
	if !v.holds(now.Add(cacheFor-time.Second), by) || v.holds(now.Add(cacheFor), by) ||
		v.holds(now, x509.NewCertPool()) {
		t.Error("a result is not valid for a minute, or is valid for other authorities")
	}
	v.until = now.Add(24 * time.Hour) // the monotonic clock does not change
	for jump, want := range map[time.Duration]bool{0: true, 59 * time.Minute: true, 61 * time.Minute: false,
		-61 * time.Minute: false} {
		assert.Equalf(t, v.holds(now.Add(jump), by), want, "clock set by %s", jump)
	}
}
