package controlplane_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"kelson.dev/apiserver/audit"
	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/authz"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// remote is a server on a TLS port whose responses the test controls: an identity provider or a
// webhook.
type remote struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	ended  chan struct{} // closed when the test ends, to release handlers that hang
}

func newRemote(t *testing.T) *remote {
	r := &remote{ended: make(chan struct{})}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		answer := r.answer
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(func() { close(r.ended); r.Close() })
	return r
}

func (r *remote) set(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// hang reads the request and never answers it.
func (r *remote) hang(_ http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body)
	select {
	case <-r.ended:
	case <-req.Context().Done():
	}
}

func (r *remote) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
}

// kubeconfig writes a kubeconfig that names the server.
func (r *remote) kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"u","user":{}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`,
		r.URL, base64.StdEncoding.EncodeToString(r.ca())))
	return file
}

// responds makes the server respond to every request with the same body.
func responds(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// falseResponses are responses that must not identify a user or allow a request.
func falseResponses(review string) map[string]http.HandlerFunc {
	yes := fmt.Sprintf(`{"apiVersion":%q,"kind":"Pod","status":{"authenticated":true,"allowed":true,"user":{"username":"root","groups":["system:masters"]}}}`, "v1")
	return map[string]http.HandlerFunc{
		"another kind":      responds(http.StatusOK, yes),
		"not JSON":          responds(http.StatusOK, "yes"),
		"cut":               responds(http.StatusOK, `{"apiVersion":"`+review+`","status":{"authenticated":true,"allowed":tr`),
		"empty":             responds(http.StatusOK, ""),
		"refused with true": responds(http.StatusForbidden, `{"apiVersion":"`+review+`","kind":"TokenReview","status":{"authenticated":true,"allowed":true,"user":{"username":"root","groups":["system:masters"]}}}`),
		"error":             responds(http.StatusInternalServerError, "broken"),
		"teapot":            responds(http.StatusTeapot, "{}"),
	}
}

// othersAreServed checks that users whose requests do not involve the remote server are served
// meanwhile.
func (s *site) othersAreServed(t *testing.T, while string) {
	t.Helper()
	done := make(chan string, 1)
	go func() { done <- s.who(t, certified(t, s.ca, "bob", "dev")) }()
	select {
	case got := <-done:
		want(t, "another user while "+while, got, "bob dev")
	case <-time.After(time.Minute):
		t.Errorf("another user gets no response while %s", while)
	}
}

// A token webhook that hangs or sends false responses identifies no user, and does not delay other
// users.
func TestUnreliableTokenWebhook(t *testing.T) {
	r := newRemote(t)
	r.set(r.hang)
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{Config: authn.Config{
		Webhook: &authn.Webhook{ConfigFile: r.kubeconfig(t), Version: "v1", TTL: time.Hour},
	}}})
	client := s.withToken(t, "hangs")
	go s.code(t.Context(), client, "GET", "/api", "", nil)
	s.othersAreServed(t, "the webhook hangs")

	for name, answer := range falseResponses("authentication.k8s.io/v1") {
		r.set(answer)
		want(t, name, s.bearer(t, strings.ReplaceAll(name, " ", "-")), refused)
	}
	r.set(responds(http.StatusOK, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"zoe"}}}`))
	want(t, "a true answer", s.bearer(t, "good"), "zoe")
}

// The server stops reading a response that does not end.
func TestEndlessResponses(t *testing.T) {
	const all = 256 << 20
	r := newRemote(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, r.ca())
	s := onPort(t, controlplane.Config{
		Authentication: controlplane.Authentication{Config: authn.Config{
			Webhook: &authn.Webhook{ConfigFile: r.kubeconfig(t), Version: "v1", TTL: time.Hour},
			OIDC:    &authn.OIDC{IssuerURL: r.URL, ClientID: "kelson", CAFile: file},
		}},
		Authorization: authz.Options{Modes: []string{"RBAC", "Webhook"}, Webhook: authz.Webhook{ConfigFile: r.kubeconfig(t), Version: "v1"}},
	})
	claims := fmt.Sprintf(`{"iss":%q,"aud":"kelson","sub":"jane","exp":%d}`, r.URL, time.Now().Add(time.Hour).Unix())
	token := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	for name, request := range map[string]func(){
		"token webhook":         func() { want(t, "a user", s.bearer(t, "opaque"), refused) },
		"authorization webhook": func() { s.code(t.Context(), s.browser(t, "eve"), "GET", "/api/v1/secrets", "", nil) },
		"issuer":                func() { want(t, "a user", s.bearer(t, token), refused) },
	} {
		written, done := 0, make(chan struct{})
		r.set(func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			// the refused token is sent to the webhook, too
			if name == "issuer" && req.Method != http.MethodGet {
				http.NotFound(w, req)
				return
			}
			defer close(done)
			w.Header().Set("Content-Type", "application/json")
			for written < all {
				n, err := io.WriteString(w, strings.Repeat(" ", 64<<10))
				if written += n; err != nil {
					return
				}
			}
		})
		request()
		if <-done; written >= all/4 {
			t.Errorf("%s: the server read %d MiB", name, written>>20)
		}
	}
}

// endless makes the server respond without end. The returned function reports how many bytes it
// could send in the largest response, after the last one has ended.
func (r *remote) endless() func() int {
	const all = 256 << 20
	var mu sync.Mutex
	var running sync.WaitGroup
	most := 0
	r.set(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		running.Add(1)
		mu.Unlock()
		defer running.Done()
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		written, chunk := 0, strings.Repeat(" ", 64<<10)
		for written < all {
			n, err := io.WriteString(w, chunk)
			if written += n; err != nil {
				break
			}
		}
		mu.Lock()
		most = max(most, written)
		mu.Unlock()
	})
	return func() int {
		running.Wait()
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}

// The server stops reading the response of an admission, image policy or audit webhook that does
// not end.
func TestEndlessResponsesOfHooks(t *testing.T) {
	hook, images, sink := newRemote(t), newRemote(t), newRemote(t)
	responses := map[string]func() int{"admission": hook.endless(), "image policy": images.endless(), "audit": sink.endless()}

	policy := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, policy, []byte(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],
		"rules":[{"level":"Metadata","users":["ann"],"verbs":["create"]},{"level":"None"}]}`))
	recording := audit.Defaults()
	recording.PolicyFile = policy
	recording.Webhook.ConfigFile, recording.Webhook.InitialBackoff, recording.Webhook.Delivery.Mode = sink.kubeconfig(t), time.Millisecond, audit.ModeBlocking
	trail, err := audit.Open(recording)
	require.NoError(t, err)
	t.Cleanup(func() { _ = trail.Close() })
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}, Audit: controlplane.Audit{Policy: trail, Sink: trail}, Admission: controlplane.Admission{
		Enable: []string{"ImagePolicyWebhook"}, Disable: []string{"ServiceAccount"},
		Plugins: map[string][]byte{"ImagePolicyWebhook": fmt.Appendf(nil,
			`{imagePolicy: {kubeConfigFile: %q, allowTTL: 50, denyTTL: 50, retryBackoff: 1, defaultAllow: false}}`, images.kubeconfig(t))},
	}})
	ann := s.browser(t, "ann", "system:masters")
	send := func(want int, path, body string) {
		t.Helper()
		if got := s.code(t.Context(), ann, "POST", path, "application/json", strings.NewReader(body)); got != want {
			t.Errorf("POST %s: %d, want %d", path, got, want)
		}
	}
	send(http.StatusCreated, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", fmt.Sprintf(
		`{"metadata":{"name":"h"},"webhooks":[{"name":"h.example.com","clientConfig":{"url":%q,"caBundle":%q},"sideEffects":"None",
		"admissionReviewVersions":["v1"],"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]}]}`,
		hook.URL, base64.StdEncoding.EncodeToString(hook.ca())))
	send(http.StatusInternalServerError, "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"c"}}`)
	send(http.StatusForbidden, "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	for name, written := range responses {
		if n := written(); n == 0 || n >= 64<<20 {
			t.Errorf("the server read %d MiB of the response of the %s webhook", n>>20, name)
		}
	}
}

// withToken is a client without a certificate whose requests carry a bearer token.
func (s *site) withToken(t *testing.T, token string) *http.Client {
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool()}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
		return transport.RoundTrip(req)
	})}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// An identity provider that hangs, reports a different issuer or serves no keys identifies no user.
func TestUnreliableIssuer(t *testing.T) {
	i := newIssuer(t)
	genuine := i.Config.Handler
	hanging := make(chan struct{})
	i.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-hanging:
		case <-req.Context().Done():
		}
	})
	file := filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, i.ca())
	start := func() *site {
		return onPort(t, controlplane.Config{Authentication: controlplane.Authentication{Config: authn.Config{OIDC: &authn.OIDC{
			IssuerURL: i.URL, ClientID: "kelson", CAFile: file, UsernamePrefix: "-", SigningAlgs: []string{"ES256"},
		}}}})
	}
	s := start()
	answered := make(chan string, 1)
	go func() { answered <- s.bearer(t, i.token(t, nil)) }()
	s.othersAreServed(t, "the issuer hangs")
	close(hanging)
	want(t, "an issuer that hung", <-answered, refused)

	for name, answer := range map[string]http.HandlerFunc{
		"another issuer": responds(http.StatusOK, fmt.Sprintf(`{"issuer":"https://elsewhere.example.com","jwks_uri":%q}`, i.URL+"/keys")),
		"no keys":        responds(http.StatusOK, fmt.Sprintf(`{"issuer":%q,"keys":[]}`, i.URL)),
		"not JSON":       responds(http.StatusOK, "<html>"),
		"error":          responds(http.StatusBadGateway, ""),
		"endless": func(w http.ResponseWriter, req *http.Request) {
			for range 256 { // 16 MiB
				if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)); err != nil {
					return
				}
			}
		},
	} {
		i.Config.Handler = answer
		s := start() // discovered documents are cached, so each false response needs its own server
		want(t, name, s.bearer(t, i.token(t, nil)), refused)
		s.othersAreServed(t, name)
	}
	i.Config.Handler = genuine
	want(t, "the genuine issuer", start().bearer(t, i.token(t, nil)), "jane")
}

// An authorization webhook that sends false responses, fails or hangs allows nothing, and requests
// that RBAC allows are served without it.
func TestUnreliableAuthorizationWebhook(t *testing.T) {
	r := newRemote(t)
	s := onPort(t, controlplane.Config{
		Authorization: authz.Options{Modes: []string{"RBAC", "Webhook"}, Webhook: authz.Webhook{ConfigFile: r.kubeconfig(t), Version: "v1"}},
		Limits:        controlplane.Limits{InFlight: 10, MutatingInFlight: 10},
	})
	const secrets = "/api/v1/namespaces/kube-system/secrets"
	eve := s.browser(t, "eve")
	for name, answer := range falseResponses("authorization.k8s.io/v1") {
		r.set(answer)
		// Each path is new: denials are cached.
		got := s.code(t.Context(), eve, "GET", secrets+"/"+strings.ReplaceAll(strings.ToLower(name), " ", "-"), "", nil)
		if got != http.StatusForbidden && got != http.StatusInternalServerError {
			t.Errorf("%s: %d, want 403, or 500 as kube-apiserver answers when its webhook fails", name, got)
		}
	}
	asked := make(chan struct{})
	r.set(func(w http.ResponseWriter, req *http.Request) {
		asked <- struct{}{}
		r.hang(w, req)
	})
	for i := range 40 { // more than there are seats
		go s.code(t.Context(), eve, "GET", fmt.Sprint(secrets, "/hangs-", i), "", nil)
	}
	for range 10 {
		<-asked
	}
	go func() {
		for range asked {
		}
	}()
	s.othersAreServed(t, "the authorization webhook hangs")
	r.set(responds(http.StatusOK, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`))
	if got := s.code(t.Context(), eve, "GET", secrets+"/allowed", "", nil); got != http.StatusNotFound {
		t.Errorf("a correct response: %d, want 404 for a missing Secret", got)
	}
}

// A WebSocket may carry its token as a subprotocol. Only a single encoded token next to another
// subprotocol is accepted, and the server never sends it back.
func TestTokensOfWebSockets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, file, []byte("correct-horse,ann,1,system:masters\n"))
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{Config: authn.Config{TokenFile: file}}})
	dial := func(protocols ...string) (*websocket.Conn, error) {
		config, err := websocket.NewConfig("wss"+strings.TrimPrefix(s.url, "https")+"/api/v1/namespaces?watch=1", "https://localhost")
		require.NoError(t, err)
		config.Protocol = protocols
		config.TlsConfig = &tls.Config{RootCAs: s.ca.Pool()}
		return config.DialContext(t.Context())
	}
	const prefix = "base64url.bearer.authorization.k8s.io."
	encoded := func(token string) string { return prefix + base64.RawURLEncoding.EncodeToString([]byte(token)) }

	ws, err := dial(encoded("correct-horse"), "base64.binary.k8s.io")
	require.NoErrorf(t, err, "the right token")
	defer ws.Close()
	for _, protocol := range ws.Config().Protocol {
		if strings.HasPrefix(protocol, prefix) {
			t.Errorf("the server sent the token back: %s", protocol)
		}
	}
	var frame []byte
	if err := websocket.Message.Receive(ws, &frame); err != nil || !strings.Contains(string(frame), `"ADDED"`) {
		t.Errorf("first event: %s, %v", frame, err)
	}
	for name, protocols := range map[string][]string{
		"a wrong token":          {encoded("battery-staple"), "base64.binary.k8s.io"},
		"the token, not encoded": {prefix + "correct-horse", "base64.binary.k8s.io"},
		"two tokens":             {encoded("correct-horse"), encoded("battery-staple"), "base64.binary.k8s.io"},
		"a token alone":          {encoded("correct-horse")},
		"none":                   {"base64.binary.k8s.io"},
	} {
		if ws, err := dial(protocols...); err == nil {
			ws.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
