package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"kelson.dev/apiserver/aggregator"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/pipes"
	"kelson.dev/internal/require"
)

func listen(t *testing.T, handler http.Handler, config *tls.Config) *pipes.Listener {
	l, stop := pipes.Serve(handler, config)
	t.Cleanup(stop)
	return l
}

// proxied is an aggregator with the backend of foo.example.com/v1, the Service test-service of the
// namespace test-ns.
type proxied struct {
	*testing.T
	authority   *pki.Authority // of the backend
	host        string         // of its certificate
	clients     *tls.Config    // the client authentication that the backend requires; nil: none
	spec        string         // of the APIService
	backend     http.Handler
	noService   bool
	noDial      bool
	user        user.Info // nil: the request has none
	signal      utilflowcontrol.InitializationSignal
	proxyClient func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
}

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority("ca")
	require.NoError(t, err)
	return a
}

func certificateOf(t *testing.T, pair pki.KeyPair, err error) *tls.Certificate {
	t.Helper()
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	require.NoError(t, err)
	return &certificate
}

// start returns a dialer of the aggregator, whose pipeline consists of the user and the request's
// info.
func (p *proxied) start() *pipes.Listener {
	p.Helper()
	st, err := store.Open(store.Config{})
	require.NoError(p, err)
	if !p.noService {
		put(p.T, st, store.Key{Resource: services.Services, Namespace: "test-ns", Name: "test-service"}, `{"metadata":{"name":"test-service","namespace":"test-ns",
			"annotations":{"kelson.dev/url":"https://backend.example"}},"spec":{"ports":[{"port":443}]}}`)
	}
	if p.spec != "" {
		put(p.T, st, store.Key{Resource: aggregator.Resource, Name: "v1.foo.example.com"}, `{"metadata":{"name":"v1.foo.example.com","uid":"1"},
			"spec":{"group":"foo.example.com","version":"v1","groupPriorityMinimum":10,"versionPriority":10,`+p.spec+`
			"service":{"namespace":"test-ns","name":"test-service","port":443}}}`)
	}
	config := &tls.Config{}
	if p.clients != nil {
		config = p.clients.Clone()
	}
	pair, err := p.authority.Server(p.host)
	config.Certificates = []tls.Certificate{*certificateOf(p.T, pair, err)}
	backend := listen(p.T, p.backend, config)
	a := aggregator.New(aggregator.Config{
		Store: st, Services: services.New(services.Config{Store: st}), Client: statuses{st}, ProxyClient: p.proxyClient,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if p.noDial {
				return nil, errors.New("broken dialer")
			}
			return backend.Dial(ctx, network, address)
		},
	})
	ctx, cancel := context.WithCancel(p.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	p.Cleanup(func() {
		cancel()
		running.Wait()
		st.Close()
	})
	synctest.Wait()
	handler := a.Handler(http.NotFoundHandler())
	infos := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api")}
	return listen(p.T, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		info, err := infos.NewRequestInfo(req)
		assert.NoError(p, err)
		ctx = apirequest.WithRequestInfo(ctx, info)
		if p.user != nil {
			ctx = apirequest.WithUser(ctx, p.user)
		}
		if p.signal != nil {
			ctx = utilflowcontrol.WithInitializationSignal(ctx, p.signal)
		}
		handler.ServeHTTP(w, req.WithContext(ctx))
	}), nil)
}

func caBundle(a *pki.Authority) string {
	return fmt.Sprintf(`"caBundle":%q,`, base64.StdEncoding.EncodeToString(a.PEM))
}

const insecure = `"insecureSkipTLSVerify":true,`

var someone = &user.DefaultInfo{Name: "username", UID: "6b60d791", Groups: []string{"one", "two"}}

// The cases of kube-aggregator's TestProxyHandler: the requests that reach the backend, their
// headers, and the responses to other requests.
func TestProxy(t *testing.T) {
	const host = "test-service.test-ns.svc"
	for _, test := range []struct {
		name      string
		change    func(*proxied)
		code      int
		body      string
		forwarded bool
	}{
		{"no target", func(p *proxied) { p.spec = "" }, http.StatusNotFound, "", false},
		{"no user", func(p *proxied) { p.user = nil }, http.StatusInternalServerError, "missing user", false},
		{"with user, insecure", func(p *proxied) {
			p.spec, p.host = insecure, "other.example"
		}, http.StatusOK, "", true},
		{"with user, caBundle", func(p *proxied) {}, http.StatusOK, "", true},
		{"service unresolvable", func(p *proxied) {
			p.noService = true
		}, http.StatusServiceUnavailable, "service unavailable", false},
		{"bad serving certificate", func(p *proxied) {
			p.spec = caBundle(authority(p.T))
		}, http.StatusServiceUnavailable, "service unavailable", false},
		{"certificate of another host", func(p *proxied) {
			p.host = "other.example"
		}, http.StatusServiceUnavailable, "service unavailable", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var got http.Header
				ca := authority(t)
				p := &proxied{T: t, authority: ca, host: host, spec: caBundle(ca), user: someone}
				p.backend = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					if got = nil; req.Header.Get("X-Remote-User") == someone.Name {
						got = maps.Clone(req.Header)
					}
				})
				test.change(p)
				client := &http.Transport{DialContext: p.start().Dial, DisableKeepAlives: true}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
					"http://plane/apis/foo.example.com/v1/things/a%20b?x=1", nil)
				require.NoError(t, err)
				req.Header.Set("X-Remote-Group", "system:masters")
				// a proxy removes the headers that Connection names
				req.Header.Set("Connection", "X-Remote-User, X-Remote-Uid, X-Remote-Group")
				resp, err := client.RoundTrip(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != test.code || !strings.Contains(string(body), test.body) {
					t.Errorf("%s %s, %v", resp.Status, body, err)
				}
				mu.Lock()
				defer mu.Unlock()
				var want http.Header
				if test.forwarded {
					want = http.Header{
						"X-Forwarded-Host": {"backend.example:443"}, "X-Forwarded-Proto": {"https"},
						"X-Forwarded-Uri": {"/apis/foo.example.com/v1/things/a%20b"},
						"X-Remote-User":   {"username"}, "X-Remote-Uid": {"6b60d791"}, "X-Remote-Group": {"one", "two"},
						"User-Agent": {"Go-http-client/1.1"}, "Accept-Encoding": {"gzip"},
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the backend got (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The cases of kube-aggregator's TestProxyUpgrade: upgraded connections verify the backend like
// others.
func TestProxyOfUpgrades(t *testing.T) {
	for _, test := range []struct {
		name, host       string
		insecure, noDial bool
		works            bool
	}{
		{"valid host, caBundle", "test-service.test-ns.svc", false, false, true},
		{"invalid host, insecure", "invalid.example", true, false, true},
		{"invalid host, caBundle", "invalid.example", false, false, false},
		{"broken dialer", "test-service.test-ns.svc", false, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var called atomic.Bool
				ca := authority(t)
				p := &proxied{T: t, authority: ca, host: test.host, spec: caBundle(ca), user: someone,
					noDial: test.noDial}
				if test.insecure {
					p.spec = insecure
				}
				p.backend = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if req.Header.Get("Upgrade") == "" {
						return
					}
					called.Store(true)
					if req.Header.Get("X-Remote-User") != "username" || req.Header.Get("X-Remote-Uid") != "6b60d791" {
						t.Errorf("user %v", req.Header)
					}
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					_, _ = io.WriteString(conn,
						"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
					word := make([]byte, 5)
					_, _ = io.ReadFull(conn, word)
					_, _ = conn.Write(append([]byte("hello "), word...))
				})
				conn, err := p.start().Dial(t.Context(), "", "")
				require.NoError(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn,
					"GET /apis/foo.example.com/v1/foo HTTP/1.1\r\nHost: plane\r\nConnection: Upgrade, X-Remote-User\r\nUpgrade: test\r\n\r\n")
				require.NoError(t, err)
				in := bufio.NewReader(conn)
				resp, err := http.ReadResponse(in, nil)
				require.NoError(t, err)
				if works := resp.StatusCode == http.StatusSwitchingProtocols; works != test.works ||
					called.Load() != test.works {
					t.Fatalf("%s; called: %v", resp.Status, called.Load())
				}
				if !test.works {
					return
				}
				answer := make([]byte, 11)
				_, err = io.WriteString(conn, "world")
				require.NoError(t, err)
				if _, err := io.ReadFull(in, answer); err != nil || !bytes.Equal(answer, []byte("hello world")) {
					t.Errorf("%q, %v", answer, err)
				}
			})
		})
	}
}

// kube-aggregator's TestProxyCertReload: a new client certificate is used without a restart.
func TestProxyCertificateRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, front := authority(t), authority(t)
		var certificate atomic.Pointer[tls.Certificate]
		wrong, err := ca.Client("aggregator")
		certificate.Store(certificateOf(t, wrong, err))
		p := &proxied{
			T: t, authority: ca, host: "test-service.test-ns.svc", spec: caBundle(ca), user: someone,
			backend: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			// In TLS 1.3 the client learns of the rejection after the handshake, which blocks on a
			// pipe.
			clients: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: front.Pool(),
				MaxVersion: tls.VersionTLS12},
			proxyClient: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate.Load(), nil },
		}
		client := &http.Transport{DialContext: p.start().Dial, DisableKeepAlives: true}
		want := func(code int) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://plane/apis/foo.example.com/v1/things", nil)
			require.NoError(t, err)
			resp, err := client.RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != code {
				t.Errorf("%s %s, %v, want %d", resp.Status, body, err, code)
			}
		}
		want(http.StatusServiceUnavailable)
		right, err := front.Client("aggregator")
		certificate.Store(certificateOf(t, right, err))
		time.Sleep(time.Minute)
		synctest.Wait()
		want(http.StatusOK)
	})
}

// kube-aggregator's TestFlowControlSignal: a request that is passed on signals flow control before
// the backend receives it. Other requests do not.
func TestProxySignalsFlowControl(t *testing.T) {
	for _, test := range []struct {
		name                   string
		local, noDial, upgrade bool
		want                   bool
	}{
		{"local", true, false, false, false},
		{"unavailable", false, true, false, false},
		{"request", false, false, false, true},
		{"upgrade", false, false, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signal := &signals{}
				var before atomic.Bool
				ca := authority(t)
				p := &proxied{T: t, authority: ca, host: "test-service.test-ns.svc", spec: caBundle(ca), user: someone,
					noDial: test.noDial, signal: signal}
				if test.local {
					p.spec = ""
				}
				p.backend = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if req.Header.Get("X-Remote-User") == someone.Name {
						before.Store(signal.Load())
					}
				})
				client := &http.Transport{DialContext: p.start().Dial, DisableKeepAlives: true}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
					"http://plane/apis/foo.example.com/v1/things", nil)
				require.NoError(t, err)
				if test.upgrade {
					req.Header.Set("Connection", "Upgrade")
				}
				resp, err := client.RoundTrip(req)
				require.NoError(t, err)
				resp.Body.Close()
				if signal.Load() != test.want || before.Load() != test.want {
					t.Errorf("signaled: %v, before the backend had the request: %v", signal.Load(), before.Load())
				}
			})
		})
	}
}

type signals struct{ atomic.Bool }

func (s *signals) Signal() { s.Store(true) }

func (s *signals) Wait() {}
