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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
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

// No write is lost on a connection that the server closed while it was idle, for all credentials
// with which client-go wraps connections.
func TestWritesAfterServerClosedConnections(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jane"},
		NotAfter: time.Now().Add(time.Hour)}
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
	for name, set := range map[string]func(*rest.Config){
		"inline": func(c *rest.Config) { c.CertData, c.KeyData = certificate, privateKey },
		"files":  func(c *rest.Config) { c.CertFile, c.KeyFile = certFile, keyFile },
		"exec": func(c *rest.Config) {
			c.ExecProvider = &clientcmdapi.ExecConfig{Command: program, APIVersion: "client.authentication.k8s.io/v1",
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New()
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
			conf := &rest.Config{Host: https.URL, Dial: hidden,
				TLSClientConfig: rest.TLSClientConfig{CAData: pemOf("CERTIFICATE", https.Certificate().Raw)}}
			set(conf)
			c, err := client.New(client.Config{REST: conf})
			must(t, err)
			must(t, c.Create(t.Context(), pod("first")))
			begin := connections.Load()
			for n := range 6 {
				if n%2 == 1 {
					https.CloseClientConnections()
					// A write that net/http sends before it detects the closed connection
					// would be lost, with an unknown outcome.
					for begin := time.Now(); open.Load() > 0 && time.Since(begin) < time.Minute; {
						time.Sleep(time.Millisecond)
					}
				}
				assert.NoErrorf(t, c.Create(t.Context(), pod(fmt.Sprint("p", n))), "create %d", n)
			}
			if n := connections.Load() - begin; n > 4 {
				t.Errorf("%d connections for 6 writes between which 3 were closed", n)
			}
		})
	}
}
