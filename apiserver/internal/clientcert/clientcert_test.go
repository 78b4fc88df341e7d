package clientcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"

	"kelson.dev/apiserver/internal/turn"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// authority is a certificate authority whose certificate is valid for a time.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, valid time.Duration) authority {
	return sign(t, authority{}, "ca", valid, true)
}

// client returns a client certificate, which is valid for a time.
func (a authority) client(t testing.TB, name string, valid time.Duration,
	usages ...x509.ExtKeyUsage) *x509.Certificate {
	if usages == nil {
		usages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	return sign(t, a, name, valid, false, usages...).cert
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func sign(t testing.TB, by authority, name string, valid time.Duration, ca bool, usages ...x509.ExtKeyUsage) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: usages, IsCA: ca,
		BasicConstraintsValid: true,
	}
	parent, signer := by.cert, by.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key}
}

// authorities are the current authorities of a test.
type authorities struct{ atomic.Pointer[x509.CertPool] }

func (a *authorities) options() (x509.VerifyOptions, bool) {
	pool := a.Load()
	return x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, pool != nil
}

func trusting(a authority) *authorities {
	all := &authorities{}
	all.Store(a.pool())
	return all
}

// proxied returns an authenticator of proxies with Kubernetes' headers.
func proxied(trusted *authorities, allowed headerrequest.StringSliceProvider) authenticator.Request {
	return Proxies{
		Authorities: trusted.options, AllowedNames: allowed,
		Usernames:     headerrequest.StaticStringSlice{"X-Remote-User"},
		UIDs:          headerrequest.StaticStringSlice{"X-Remote-Uid"},
		Groups:        headerrequest.StaticStringSlice{"X-Remote-Group"},
		ExtraPrefixes: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
	}.Authenticator()
}

// from returns a request of a client that names the user alice in a header.
func from(chain ...*x509.Certificate) *http.Request {
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("X-Remote-User", "alice")
	req.Header.Set("X-Remote-Group", "dev")
	req.TLS = &tls.ConnectionState{PeerCertificates: chain}
	return req
}

// both runs a test with the authenticator of users and with that of proxies. want is the user of an
// accepted request of a client named front.
func both(t *testing.T, test func(t *testing.T, build func(trusted *authorities) authenticator.Request, want string)) {
	t.Run("users", func(t *testing.T) {
		test(t, func(trusted *authorities) authenticator.Request { return Users(trusted.options) }, "front")
	})
	t.Run("proxies", func(t *testing.T) {
		test(t, func(trusted *authorities) authenticator.Request {
			return proxied(trusted, headerrequest.StaticStringSlice{"front"})
		}, "alice")
	})
}

func accepted(t *testing.T, auth authenticator.Request, req *http.Request, want string) {
	t.Helper()
	resp, ok, err := auth.AuthenticateRequest(req)
	if !ok || err != nil || resp.User.GetName() != want {
		t.Errorf("got %v, %v, %v; want user %s", resp, ok, err, want)
	}
}

func rejected(t *testing.T, auth authenticator.Request, req *http.Request, want string) {
	t.Helper()
	if resp, ok, err := auth.AuthenticateRequest(req); ok || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, %v, %v; want an error with %q", resp, ok, err, want)
	}
}

func TestExpiryWhileCached(t *testing.T) {
	both(t, func(t *testing.T, build func(*authorities) authenticator.Request, want string) {
		for name, valid := range map[string]struct{ ca, client time.Duration }{
			"client": {time.Hour, 10 * time.Second}, "authority": {10 * time.Second, time.Hour},
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ca := newAuthority(t, valid.ca)
					client := ca.client(t, "front", valid.client)
					auth := build(trusting(ca))
					accepted(t, auth, from(client), want)
					time.Sleep(9 * time.Second)
					accepted(t, auth, from(client), want)
					time.Sleep(2 * time.Second)
					rejected(t, auth, from(client), "expired")
				})
			})
		}
	})
}

func TestAuthoritiesChange(t *testing.T) {
	both(t, func(t *testing.T, build func(*authorities) authenticator.Request, want string) {
		old, fresh := newAuthority(t, time.Hour), newAuthority(t, time.Hour)
		client, successor := old.client(t, "front", time.Hour), fresh.client(t, "front", time.Hour)
		trusted := trusting(old)
		auth := build(trusted)
		accepted(t, auth, from(client), want)
		rejected(t, auth, from(successor), "unknown authority")
		trusted.Store(fresh.pool())
		rejected(t, auth, from(client), "unknown authority")
		accepted(t, auth, from(successor), want)
		trusted.Store(old.pool())
		accepted(t, auth, from(client), want)
		trusted.Store(nil)
		if resp, ok, err := auth.AuthenticateRequest(from(client)); ok || err != nil {
			t.Errorf("without authorities: %v %v %v", resp, ok, err)
		}
	})
}

func TestWrongUsage(t *testing.T) {
	both(t, func(t *testing.T, build func(*authorities) authenticator.Request, _ string) {
		ca := newAuthority(t, time.Hour)
		auth := build(trusting(ca))
		server := ca.client(t, "front", time.Hour, x509.ExtKeyUsageServerAuth)
		for range 2 {
			rejected(t, auth, from(server), "incompatible key usage")
		}
	})
}

func TestIntermediate(t *testing.T) {
	both(t, func(t *testing.T, build func(*authorities) authenticator.Request, want string) {
		synctest.Test(t, func(t *testing.T) {
			ca := newAuthority(t, time.Hour)
			between := sign(t, ca, "between", 10*time.Second, true)
			client := between.client(t, "front", time.Hour)
			auth := build(trusting(ca))
			rejected(t, auth, from(client), "unknown authority")
			accepted(t, auth, from(client, between.cert), want)
			time.Sleep(11 * time.Second)
			rejected(t, auth, from(client, between.cert), "") // the intermediate has expired
		})
	})
}

func TestNames(t *testing.T) {
	ca := newAuthority(t, time.Hour)
	allowed := headerrequest.StaticStringSlice{"front"}
	auth := proxied(trusting(ca), headerrequest.StringSliceProviderFunc(func() []string { return allowed }))
	front, other := ca.client(t, "front", time.Hour), ca.client(t, "other", time.Hour)
	accepted(t, auth, from(front), "alice")
	rejected(t, auth, from(other), "subject with cn=other is not in the allowed list")
	allowed = headerrequest.StaticStringSlice{"other"} // both are cached now
	rejected(t, auth, from(front), "subject with cn=front is not in the allowed list")
	accepted(t, auth, from(other), "alice")
}

// The headers of a cached proxy are those of each request.
func TestHeadersAreNotCached(t *testing.T) {
	ca := newAuthority(t, time.Hour)
	auth, front := proxied(trusting(ca), headerrequest.StaticStringSlice{}), ca.client(t, "front", time.Hour)
	req := from(front)
	accepted(t, auth, req, "alice")
	assert.Equalf(t, req.Header.Get("X-Remote-User"), "", "header of the accepted request")
	req = from(front)
	req.Header.Set("X-Remote-User", "bob")
	accepted(t, auth, req, "bob")
	req.Header.Del("X-Remote-User")
	if _, ok, err := auth.AuthenticateRequest(req); ok || err != nil {
		t.Errorf("without a header: %v %v", ok, err)
	}
}

// A certificate of users does not make its client a proxy, however often it was accepted.
func TestUserIsNotAProxy(t *testing.T) {
	forUsers, forProxies := newAuthority(t, time.Hour), newAuthority(t, time.Hour)
	user := forUsers.client(t, "front", time.Hour)
	users, proxies := Users(trusting(forUsers).options),
		proxied(trusting(forProxies), headerrequest.StaticStringSlice{})
	for range 2 {
		accepted(t, users, from(user), "front")
		rejected(t, proxies, from(user), "unknown authority")
	}
}

// A chain that takes long to reject is verified once for all requests of a connection.
func TestRejectionIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, time.Hour)
		client, pool := ca.client(t, "front", time.Hour), ca.pool()
		cache := newVerified[int]()
		cache.verifying = turn.New(1) // as on a machine with two processors
		checks := 0
		serve := func(req *http.Request, authorities *x509.CertPool, want int) {
			t.Helper()
			var requests sync.WaitGroup
			for range 10 {
				requests.Go(func() {
					_, err := cache.verify(req, authorities, func() ([]*x509.Certificate, int, error) {
						checks++
						time.Sleep(time.Millisecond)
						return nil, 0, errors.New("not trusted")
					})
					if err == nil || err.Error() != "not trusted" {
						t.Errorf("got %v", err)
					}
				})
			}
			if requests.Wait(); checks != want {
				t.Errorf("%d checks, want %d", checks, want)
			}
		}
		first, second := from(client), from(client)
		serve(first, pool, 1)
		serve(second, pool, 2) // it may have other intermediates
		serve(first, pool, 2)
		serve(first, ca.pool(), 3)
		time.Sleep(11 * time.Second)
		serve(second, pool, 4)
	})
}

func TestBoundedSize(t *testing.T) {
	ca := newAuthority(t, time.Hour)
	client, pool := ca.client(t, "front", time.Hour), ca.pool()
	cache := newVerified[int]()
	for i := range 2*maxCached + 10 {
		leaf := *client
		cache.put(&leaf, pool, []*x509.Certificate{&leaf, ca.cert}, i)
		if got, ok := cache.get(&leaf, pool); !ok || got != i {
			t.Fatalf("certificate %d: %d %v", i, got, ok)
		}
		if len(cache.byLeaf) > maxCached {
			t.Fatalf("%d certificates are cached", len(cache.byLeaf))
		}
	}
}

func BenchmarkUsers(b *testing.B) {
	ca := newAuthority(b, time.Hour)
	benchmark(b, Users(trusting(ca).options), ca.client(b, "front", time.Hour))
}

func BenchmarkProxies(b *testing.B) {
	ca := newAuthority(b, time.Hour)
	benchmark(b, proxied(trusting(ca), headerrequest.StaticStringSlice{}), ca.client(b, "front", time.Hour))
}

func benchmark(b *testing.B, auth authenticator.Request, client *x509.Certificate) {
	req := from(client)
	b.ReportAllocs()
	for b.Loop() {
		req.Header["X-Remote-User"] = []string{"alice"}
		if _, ok, err := auth.AuthenticateRequest(req); !ok {
			b.Fatal(err)
		}
	}
}
