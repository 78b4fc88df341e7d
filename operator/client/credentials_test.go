package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/pipes"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

// All credentials of a kubeconfig work: a token, a password, an exec plugin (called again after a
// 401), and an authority from a file.
func TestKubeconfig(t *testing.T) {
	server := apitest.New()
	var seen http.Header
	var refused int
	https := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		if r.Header.Get("Authorization") == "Bearer stale" {
			refused++
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		server.ServeHTTP(w, r)
	}))
	defer https.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	must(t, os.WriteFile(ca, pemOf("CERTIFICATE", https.Certificate().Raw), 0o600))
	tokens := write("tokens", "stale", 0o600)
	program := write("program", "#!/bin/sh\nprintf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}' \"$(cat "+tokens+")\"\n", 0o700)
	for name, tt := range map[string]struct{ user, header, want string }{
		"token":     {"token: secret", "Authorization", "Bearer secret"},
		"tokenFile": {"tokenFile: " + write("token", "filed\n", 0o600), "Authorization", "Bearer filed"},
		"password":  {"username: jane\n    password: pw", "Authorization", "Basic amFuZTpwdw=="},
		"exec": {"exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: " + program +
			"\n      interactiveMode: Never",
			"Authorization", "Bearer fresh"},
		"as": {"token: secret\n    as: joe\n    as-groups: [ops]", "Impersonate-User", "joe"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write("config-"+name, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: %q, certificate-authority: ca.crt}
users:
- name: u
  user:
    %s
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
`, https.URL, tt.user), 0o600)
			cfg, err := clientcmd.BuildConfigFromFlags("", path)
			must(t, err)
			c, err := client.New(client.Config{REST: cfg})
			must(t, err)
			err = c.Create(t.Context(), pod("of-"+strings.ToLower(name)))
			if name == "exec" { // after a rejected token, the plugin is called again
				if err == nil || refused != 1 {
					t.Errorf("refused %d times: %v", refused, err)
				}
				must(t, os.WriteFile(tokens, []byte("fresh"), 0o600))
				if err = c.Create(t.Context(), pod("of-exec")); err != nil {
					err = c.Create(t.Context(), pod("of-exec"))
				}
			}
			must(t, err)
			assert.Equalf(t, seen.Get(tt.header), tt.want, "%s", tt.header)
		})
	}
}

// A token file is read again, and debugging wrappers log.
func TestTokenFileReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		must(t, os.WriteFile(file, []byte("one"), 0o600))
		server := apitest.New()
		var got string
		server.SetFaults(apitest.Faults{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			got = r.Header.Get("Authorization")
			return false
		}})
		cfg := server.REST()
		cfg.BearerTokenFile = file
		cfg.Wrap(transport.DebugWrappers)
		c, err := client.New(client.Config{REST: cfg})
		must(t, err)
		must(t, c.Create(t.Context(), pod("a")))
		assert.Equal(t, got, "Bearer one")
		must(t, os.WriteFile(file, []byte("two"), 0o600))
		time.Sleep(2 * time.Minute)
		must(t, c.Create(t.Context(), pod("b")))
		assert.Equalf(t, got, "Bearer two", "after a while")
	})
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Set it before any client is created, because their goroutines read it.
func init() { transport.CertCallbackRefreshDuration = 10 * time.Millisecond }

// A client certificate is read again when its files change; connections with the old one are
// closed.
func TestCertificateReloads(t *testing.T) {
	names := make(chan string, 100)
	server := apitest.New()
	https := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names <- r.TLS.PeerCertificates[0].Subject.CommonName
		server.ServeHTTP(w, r)
	}))
	https.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	https.StartTLS()
	defer https.Close()
	dir := t.TempDir()
	cfg := &rest.Config{Host: https.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pemOf("CERTIFICATE", https.Certificate().Raw), CertFile: filepath.Join(dir, "tls.crt"),
		KeyFile: filepath.Join(dir, "tls.key"),
	}}
	write := func(name string) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
			NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		must(t, err)
		private, err := x509.MarshalECPrivateKey(key)
		must(t, err)
		must(t, os.WriteFile(cfg.CertFile, pemOf("CERTIFICATE", der), 0o600))
		must(t, os.WriteFile(cfg.KeyFile, pemOf("EC PRIVATE KEY", private), 0o600))
	}
	write("one")
	c, err := client.New(client.Config{REST: cfg})
	must(t, err)
	ask := func(do func() error) string {
		t.Helper()
		_ = do() // the object does not exist; its connection may be closed during the request
		select {
		case name := <-names:
			return name
		default:
			return ""
		}
	}
	asks := map[string]func() error{
		"read":  func() error { return c.Get(t.Context(), web, dynamic(podKind, "")) },
		"write": func() error { return c.Delete(t.Context(), dynamic(podKind, "web")) },
	}
	for verb, do := range asks {
		require.Equalf(t, ask(do), "one", "%s: the first", verb)
	}
	write("two")
	for verb, do := range asks {
		for begin := time.Now(); ask(do) != "two"; time.Sleep(5 * time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("%s: the new certificate is not used", verb)
			}
		}
	}
}

// A changed CA file takes effect after client-go's interval, and the limits of connections and of
// the time to a response apply to the transport that client-go then creates. A file that is being
// written has no effect.
func TestAuthorityReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current atomic.Pointer[tls.Certificate]
		file := filepath.Join(t.TempDir(), "ca.crt")
		change := func() {
			t.Helper()
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			must(t, err)
			template := &x509.Certificate{
				SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(48 * time.Hour),
				IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
			}
			der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			must(t, err)
			current.Store(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
			must(t, os.WriteFile(file, pemOf("CERTIFICATE", der), 0o600))
		}
		change()
		var mute atomic.Bool
		var waiting atomic.Int32
		server := apitest.New()
		server.SetFaults(apitest.Faults{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			if mute.Load() {
				// The context ends with the connection only after the body has been read.
				_, _ = io.Copy(io.Discard, r.Body)
				waiting.Add(1)
				<-r.Context().Done()
			}
			return mute.Load()
		}})
		listener, stop := pipes.Serve(server, &tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return &tls.Config{Certificates: []tls.Certificate{*current.Load()}}, nil
			},
		})
		defer stop()
		c, err := client.New(client.Config{REST: &rest.Config{Host: "https://127.0.0.1", Dial: listener.Dial,
			TLSClientConfig: rest.TLSClientConfig{CAFile: file}}})
		must(t, err)
		// client-go's interval, and more than the time for which a connection stays idle
		const interval, idle = 5 * time.Minute, time.Minute
		must(t, c.Create(t.Context(), pod("one")))
		change()
		must(t, c.Create(t.Context(), pod("over-the-old-connection")))
		time.Sleep(idle)
		if err := c.Create(t.Context(), pod("early")); err == nil {
			t.Error("the client read the CA file before the interval ended; correct the guide")
		}
		time.Sleep(interval)
		must(t, c.Create(t.Context(), pod("two")))
		must(t, os.WriteFile(file, []byte("being written"), 0o600))
		time.Sleep(interval)
		must(t, c.Create(t.Context(), pod("three")))

		mute.Store(true)
		begin := time.Now()
		var writes sync.WaitGroup
		for n := range 150 {
			writes.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := c.Create(ctx, pod(fmt.Sprint("mute-", n))); err == nil || ctx.Err() != nil {
					t.Errorf("the server does not respond; after %v: %v", time.Since(begin), err)
				}
			})
		}
		synctest.Wait()
		assert.Equalf(t, waiting.Load(), 100, "writes at the same time")
		writes.Wait()
	})
}
