package crd_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/bounded"
)

// A conversion webhook that answers without end, late, slowly or with a request to wait ends no
// request later than half a minute, or a few pauses of a second, and uses little memory.
func TestConversionWebhookLimits(t *testing.T) {
	for _, test := range []struct {
		name   string
		most   time.Duration
		handle http.HandlerFunc
	}{
		{"endless", bounded.Timeout, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			written, chunk := 0, []byte(strings.Repeat(" ", 64<<10))
			for {
				n, err := w.Write(chunk)
				if written += n; err != nil {
					break
				}
				if written > 2*bounded.MaxObject {
					t.Errorf("the server read %d bytes", written)
					break
				}
			}
		}},
		{"silent", bounded.Timeout, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }},
		{"slow", bounded.Timeout, func(w http.ResponseWriter, req *http.Request) {
			for tick := time.Tick(time.Second); ; {
				select {
				case <-tick:
				case <-req.Context().Done():
					return
				}
				if _, err := w.Write([]byte(" ")); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}},
		{"busy", 15 * time.Second, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Retry-After", "1000000")
			w.WriteHeader(http.StatusTooManyRequests)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ca, dial := serveHandler(t, func(w http.ResponseWriter, req *http.Request) {
					// After that, net/http sees when the client leaves.
					_, _ = io.Copy(io.Discard, req.Body)
					test.handle(w, req)
				})
				p := newPlane(t, withWebhookDial(dial))
				v1 := `{"name":"v1","served":true,"storage":true,`
				old := `{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},` + v1
				p.do("POST", definitionsPath, widgets(v1, old, `"scope":"Namespaced",`, webhookConversion(ca))).
					want(201)
				p.do("POST", widgetsPath, widget("a", `{"color":"green"}`)).want(201)
				begin := time.Now()
				p.do("GET", strings.Replace(widgetsPath, "/v1/", "/v1beta1/", 1)+"/a", "").want(500)
				if took := time.Since(begin); took > test.most {
					t.Errorf("the request took %s", took)
				}
			})
		})
	}
}
