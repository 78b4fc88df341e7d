package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
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
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/operator/client"
	"kelson.dev/operator/client/clienttest"
)

// wrapping hides the type of a connection, and counts the open connections.
type wrapping struct {
	net.Conn
	closed func()
}

func (w wrapping) Close() error {
	w.closed()
	return w.Conn.Close()
}

// No write is lost on a connection that the server closed while it was idle, even if client-go or
// the user wraps connections.
func TestWritesAfterServerClosedConnections(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jane"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	certificate, privateKey := pemOf("CERTIFICATE", der), pemOf("EC PRIVATE KEY", private)
	file := func(name string, data []byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, data, mode))
		return path
	}
	certFile, keyFile := file("tls.crt", certificate, 0o600), file("tls.key", privateKey, 0o600)
	program := file("program", []byte("#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}'\n"), 0o700)

	var open atomic.Int32 // wrapped connections on the client's side
	hidden := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		return wrapping{conn, sync.OnceFunc(func() { open.Add(-1) })}, nil
	}
	for name, set := range map[string]func(*rest.Config, *client.Config){
		"inline": func(c *rest.Config, _ *client.Config) { c.CertData, c.KeyData = certificate, privateKey },
		"files":  func(c *rest.Config, _ *client.Config) { c.CertFile, c.KeyFile = certFile, keyFile },
		"net/http": func(c *rest.Config, cfg *client.Config) {
			c.CertFile, c.KeyFile, c.Dial, cfg.NetHTTP = certFile, keyFile, hidden, true
		},
		"exec": func(c *rest.Config, _ *client.Config) {
			c.ExecProvider = &clientcmdapi.ExecConfig{Command: program, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		},
		"dial": func(c *rest.Config, _ *client.Config) { c.Dial = hidden },
	} {
		t.Run(name, func(t *testing.T) {
			server := clienttest.New()
			var connections atomic.Int32
			https := httptest.NewUnstartedServer(server)
			https.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
			https.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					connections.Add(1)
				}
			}
			https.StartTLS()
			defer https.Close()
			conf := &rest.Config{Host: https.URL, TLSClientConfig: rest.TLSClientConfig{CAData: pemOf("CERTIFICATE", https.Certificate().Raw)}}
			cfg := client.Config{REST: conf}
			set(conf, &cfg)
			c, err := client.New(cfg)
			must(t, err)
			must(t, c.Create(t.Context(), pod("first")))
			begin := connections.Load()
			for n := range 6 {
				if n%2 == 1 {
					https.CloseClientConnections()
					// net/http's own goroutines detect it
					for begin := time.Now(); open.Load() > 0 && time.Since(begin) < time.Minute; {
						time.Sleep(time.Millisecond)
					}
				}
				if err := c.Create(t.Context(), pod(fmt.Sprint("p", n))); err != nil {
					t.Errorf("create %d: %v", n, err)
				}
			}
			if n := connections.Load() - begin; n > 4 {
				t.Errorf("%d connections for 6 writes between which 3 were closed", n)
			}
		})
	}
}

// An environment variable turns the library's own connections off.
func TestNetHTTPByEnvironment(t *testing.T) {
	t.Setenv(client.NetHTTPEnv, "maybe")
	if _, err := client.New(client.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}}); err == nil || !strings.Contains(err.Error(), client.NetHTTPEnv) {
		t.Errorf("got %v", err)
	}
	server := clienttest.New()
	// net/http sends Accept-Encoding: gzip; package http1, which is for small responses, does not.
	var encoding string
	https := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		encoding = r.Header.Get("Accept-Encoding")
		server.ServeHTTP(w, r)
	}))
	defer https.Close()
	for value, want := range map[string]string{"": "", "false": "", "true": "gzip"} {
		t.Setenv(client.NetHTTPEnv, value)
		// Responses to this machine's own addresses are not compressed, so the test uses another
		// host name.
		conf := &rest.Config{Host: "http://elsewhere.example", Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, https.Listener.Addr().String())
		}}
		c, err := client.New(client.Config{REST: conf})
		must(t, err)
		must(t, c.Create(t.Context(), pod("p"+value)))
		if encoding != want {
			t.Errorf("%q: Accept-Encoding %q, want %q", value, encoding, want)
		}
	}
}
