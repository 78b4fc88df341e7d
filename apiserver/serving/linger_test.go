package serving_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	"kelson.dev/internal/pipes"
	"kelson.dev/internal/require"
)

// A server with Linger doesn't wait a second for the idle HTTP/2 connections of its clients.
func TestLinger(t *testing.T) {
	for _, c := range []struct{ linger, atMost time.Duration }{{0, 2 * time.Second},
		{10 * time.Millisecond, 10 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			authority, err := pki.NewAuthority("test")
			require.NoError(t, err)
			listener := pipes.New()
			server, err := serving.New(serving.Config{
				Listener: listener, Handler: http.NotFoundHandler(), Certificate: authority.Serving("127.0.0.1"),
				Linger: c.linger,
			})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- server.Run(ctx) }()
			transport := &http.Transport{ForceAttemptHTTP2: true,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
				DialContext:     listener.Dial}
			defer transport.CloseIdleConnections()
			resp, err := (&http.Client{Transport: transport}).Get("https://127.0.0.1/")
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.ProtoMajor != 2 {
				t.Fatal(resp.Proto)
			}
			synctest.Wait()
			began := time.Now()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			took := time.Since(began)
			if took > c.atMost || c.linger == 0 && took < time.Second {
				t.Errorf("linger %v: Run ended after %v", c.linger, took)
			}
		})
	}
}
