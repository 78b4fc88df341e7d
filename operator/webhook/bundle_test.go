package webhook

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"kelson.dev/internal/require"
)

// Over thirty years, clients with the bundle of one certificate lifetime ago trust the current
// certificate.
func TestRenewalKeepsTrust(t *testing.T) {
	const life = 90 * 24 * time.Hour
	names := []string{"*.system.svc", "localhost", "127.0.0.1"}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var b *bundle
	var trusted [][]byte // one entry per week
	authorities := map[string]bool{}
	for week := range 30 * 52 {
		n, err := b.renewed(now, names, life)
		require.NoError(t, err)
		if n == b && b.due(life).Before(now.Add(-8*24*time.Hour)) {
			t.Fatalf("week %d: due %v, but nothing was renewed", week, b.due(life))
		}
		b = n
		trusted = append(trusted, b.pem())
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(trusted[max(0, week-12)])
		for _, host := range []string{"hook.system.svc", "localhost", "127.0.0.1"} {
			_, err = b.serving.cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
			require.NoErrorf(t, err, "week %d: %s", week, host)
		}
		if left := b.serving.remaining(now); left < life/3-8*24*time.Hour {
			t.Fatalf("week %d: %v left", week, left)
		}
		if len(b.authorities) > 2 {
			t.Fatalf("week %d: %d authorities", week, len(b.authorities))
		}
		authorities[b.authorities[0].cert.SerialNumber.String()] = true
		now = now.Add(7 * 24 * time.Hour)
	}
	if len(authorities) < 3 {
		t.Errorf("%d authorities in thirty years: they were not renewed", len(authorities))
	}
}

// A bundle survives its encoding and is renewed only if needed. Damaged ones are refused.
func TestBundleIsKept(t *testing.T) {
	now := time.Now()
	b, err := (*bundle)(nil).renewed(now, []string{"a.example.com"}, time.Hour)
	require.NoError(t, err)
	data, err := b.encode()
	require.NoError(t, err)
	kept, err := decodeBundle(data)
	if err != nil || !kept.equal(b) {
		t.Fatalf("%v: the bundle changed", err)
	}
	if again, err := kept.renewed(now, []string{"a.example.com"}, time.Hour); err != nil || again != kept {
		t.Errorf("%v: renewed without need", err)
	}
	if again, err := kept.renewed(now, []string{"b.example.com"}, time.Hour); err != nil ||
		!slices.Equal(again.serving.cert.DNSNames, []string{"b.example.com"}) ||
		!slices.Equal(again.authorities, kept.authorities) {
		t.Errorf("%v: other names want another certificate of the same authority", err)
	}
	other, _ := (*bundle)(nil).renewed(now, nil, time.Hour)
	foreign, _ := other.encode()
	for name, damage := range map[string]func(map[string][]byte){
		"no key":                  func(d map[string][]byte) { delete(d, keyKey) },
		"no authority":            func(d map[string][]byte) { delete(d, caCertKey); delete(d, caKeyKey) },
		"another bundle's key":    func(d map[string][]byte) { d[keyKey] = foreign[keyKey] },
		"no PEM":                  func(d map[string][]byte) { d[certKey] = []byte("hello") },
		"a missing authority key": func(d map[string][]byte) { d[caKeyKey] = nil },
		"two serving certificates": func(d map[string][]byte) {
			d[certKey] = append(d[certKey], d[caCertKey]...)
			d[keyKey] = append(d[keyKey], d[caKeyKey]...)
		},
	} {
		d := map[string][]byte{}
		for k, v := range data {
			d[k] = slices.Clone(v)
		}
		damage(d)
		if _, err := decodeBundle(d); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
