package authn

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-oidc"

	"kelson.dev/internal/assert"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// While an issuer does not answer, requests of clients that have left do not wait for it. One
// discovery serves all requests.
func TestDiscoveryEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, make(chan struct{})
		client := &http.Client{Transport: transport(func(req *http.Request) (*http.Response, error) {
			asked++
			<-answer
			body := io.NopCloser(strings.NewReader(`{"issuer":"https://issuer","jwks_uri":"https://issuer/keys"}`))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: body, Request: req}, nil
		})}
		k := &keySet{issuer: "https://issuer", client: client, ctx: oidc.ClientContext(t.Context(), client)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := k.VerifySignature(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begin) != time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		time.AfterFunc(time.Minute, func() { close(answer) })
		if keys, err := k.discovered(t.Context()); err != nil || keys == nil {
			t.Errorf("%v, %v", keys, err)
		}
		assert.Equalf(t, asked, 1, "discoveries")
	})
}
