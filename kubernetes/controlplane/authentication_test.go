package controlplane_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/go-jose/go-jose.v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// site is a control plane that serves HTTPS on a port.
type site struct {
	*controlplane.ControlPlane
	url string
	ca  *pki.Authority // signs the serving certificate and client certificates
}

func onPort(t testing.TB, cfg controlplane.Config) *site {
	t.Helper()
	ca, err := pki.NewAuthority("serving")
	require.NoError(t, err)
	cfg.ClientCAs = ca.Pool()
	plane, err := controlplane.Start(t.Context(), cfg)
	require.NoError(t, err)
	listener, err := serving.Listen("127.0.0.1:0")
	require.NoError(t, err)
	server, err := serving.New(serving.Config{
		Listener: listener, Handler: plane.Handler(), Certificate: ca.Serving("127.0.0.1"), ClientCAs: plane.ClientCAs,
		Grace: time.Second,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended; plane.Stop() })
	return &site{plane, server.URL(), ca}
}

// who sends a SelfSubjectReview over its own connection. It returns the name and groups of the
// authenticated user, or the error.
func (s *site) who(t *testing.T, pair *pki.KeyPair, header ...string) string {
	t.Helper()
	config := &tls.Config{RootCAs: s.ca.Pool()}
	if pair != nil {
		cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
		require.NoError(t, err)
		// Send the certificate even if the server did not ask for one of this authority.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	body := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	req, err := http.NewRequestWithContext(t.Context(), "POST",
		s.url+"/apis/authentication.k8s.io/v1/selfsubjectreviews", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	answer := require.Body(t, resp)
	if resp.StatusCode == http.StatusForbidden && bytes.Contains(answer, []byte("system:anonymous")) {
		return "anonymous"
	}
	if resp.StatusCode != http.StatusCreated {
		return resp.Status
	}
	var review authenticationv1.SelfSubjectReview
	require.NoError(t, json.Unmarshal(answer, &review))
	user := review.Status.UserInfo
	groups := slices.DeleteFunc(user.Groups, func(g string) bool { return g == "system:authenticated" })
	text := user.Username + " " + strings.Join(groups, ",")
	for _, key := range []string{"scopes"} {
		if v, ok := user.Extra[key]; ok {
			text += fmt.Sprint(" ", key, v)
		}
	}
	return strings.TrimSpace(text)
}

func (s *site) bearer(t *testing.T, token string) string {
	t.Helper()
	return s.who(t, nil, "Authorization: Bearer "+token)
}

const refused = "401 Unauthorized"

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func newAuthority(t *testing.T, name string) *pki.Authority {
	t.Helper()
	ca, err := pki.NewAuthority(name)
	require.NoError(t, err)
	return ca
}

func certified(t testing.TB, ca *pki.Authority, name string, groups ...string) *pki.KeyPair {
	t.Helper()
	pair, err := ca.Client(name, groups...)
	require.NoError(t, err)
	return &pair
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, data, 0o600))
}

// The file of client CAs is used in addition to the server's own authority, and is reloaded.
func TestClientCertificates(t *testing.T) {
	first, second, file := newAuthority(t, "first"), newAuthority(t, "second"), filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, first.PEM)
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{
		Config: authn.Config{ClientCAFile: file}}})
	want(t, "own", s.who(t, certified(t, s.ca, "root", "ops")), "root ops")
	want(t, "file's", s.who(t, certified(t, first, "jane", "dev")), "jane dev")
	want(t, "stranger's", s.who(t, certified(t, second, "jane")), refused)
	want(t, "no credentials", s.who(t, nil), "anonymous")
	write(t, file, second.PEM)
	want(t, "new", s.who(t, certified(t, second, "jane")), "jane")
	want(t, "former", s.who(t, certified(t, first, "jane")), refused)
	server, err := second.Server("jane")
	require.NoError(t, err)
	want(t, "a server's certificate", s.who(t, &server), refused)
}

// The tokens of the file authenticate its users, and changes of the file apply without a restart. A
// valid token counts although the certificate is from an unknown authority.
func TestStaticTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, file, []byte("letmein,jane,7,\"dev,qa\"\nplain,bob,8\n"))
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{
		Config: authn.Config{TokenFile: file}}})
	want(t, "known", s.bearer(t, "letmein"), "jane dev,qa")
	want(t, "without groups", s.bearer(t, "plain"), "bob")
	want(t, "unknown", s.bearer(t, "letmeout"), refused)
	want(t, "valid token, and a certificate of an unknown authority",
		s.who(t, certified(t, newAuthority(t, "x"), "eve"), "Authorization: Bearer letmein"), "jane dev,qa")
	write(t, file, []byte("other,jane,7\n"))
	want(t, "removed", s.bearer(t, "letmein"), refused)
	want(t, "added", s.bearer(t, "other"), "jane")
}

// A bootstrap token in a Secret authenticates with its groups until it expires, if bootstrap tokens
// are accepted.
func TestBootstrapTokens(t *testing.T) {
	auth := controlplane.Authentication{AcceptBootstrapTokens: true}
	s, off := onPort(t, controlplane.Config{Authentication: auth}), onPort(t, controlplane.Config{})
	secret := func(on *site, id, more string) {
		t.Helper()
		on.post(t, "/api/v1/namespaces/kube-system/secrets", fmt.Sprintf(`{"metadata":{"name":"bootstrap-token-%s"},"type":"bootstrap.kubernetes.io/token",
			"stringData":{"token-id":%q,"token-secret":"0123456789abcdef","usage-bootstrap-authentication":"true"%s}}`, id, id, more))
	}
	secret(s, "aaaaaa", `,"auth-extra-groups":"system:bootstrappers:lab"`)
	secret(s, "bbbbbb", fmt.Sprintf(`,"expiration":%q`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
	secret(off, "aaaaaa", "")
	want(t, "good", s.bearer(t, "aaaaaa.0123456789abcdef"),
		"system:bootstrap:aaaaaa system:bootstrappers,system:bootstrappers:lab")
	want(t, "wrong secret", s.bearer(t, "aaaaaa.fedcba9876543210"), refused)
	want(t, "expired", s.bearer(t, "bbbbbb.0123456789abcdef"), refused)
	want(t, "none", s.bearer(t, "cccccc.0123456789abcdef"), refused)
	want(t, "switched off", off.bearer(t, "aaaaaa.0123456789abcdef"), refused)
}

func (s *site) post(t *testing.T, path, body string) []byte {
	t.Helper()
	resp, err := (&http.Client{Transport: s.Transport()}).Post("http://kelson"+path, "application/json",
		strings.NewReader(body))
	require.NoError(t, err)
	answer := require.Body(t, resp)
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST %s: %s %s", path, resp.Status, answer)
	}
	return answer
}

// issuer is an OpenID Connect provider.
type issuer struct {
	*httptest.Server
	signer atomic.Pointer[jose.JSONWebKey]
	asked  atomic.Int64
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	i.rotate(t, "k1")
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys")
		case "/keys":
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.signer.Load().Public()}})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) rotate(t *testing.T, id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	i.signer.Store(&jose.JSONWebKey{Key: key, KeyID: id, Algorithm: "ES256"})
}

func (i *issuer) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
}

func (i *issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": i.URL, "aud": "kelson", "sub": "jane", "exp": time.Now().Add(time.Hour).Unix()}
	for k, v := range claims {
		all[k] = v
	}
	payload, err := json.Marshal(all)
	require.NoError(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.signer.Load()}, nil)
	require.NoError(t, err)
	signed, err := signer.Sign(payload)
	require.NoError(t, err)
	text, err := signed.CompactSerialize()
	require.NoError(t, err)
	return text
}

// Configured by flags.
func TestOpenIDConnect(t *testing.T) {
	i, stranger := newIssuer(t), newIssuer(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, i.ca())
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{Config: authn.Config{OIDC: &authn.OIDC{
		IssuerURL: i.URL, ClientID: "kelson", CAFile: file, UsernamePrefix: "oidc:", GroupsClaim: "groups",
		GroupsPrefix:   "g:",
		RequiredClaims: map[string]string{"team": "lab"}, SigningAlgs: []string{"ES256"},
	}}}})
	if i.asked.Load() != 0 {
		t.Error("the server contacted the issuer before the first token")
	}
	lab := func(more map[string]any) map[string]any {
		claims := map[string]any{"team": "lab", "groups": []string{"dev"}}
		for k, v := range more {
			claims[k] = v
		}
		return claims
	}
	want(t, "good", s.bearer(t, i.token(t, lab(nil))), "oidc:jane g:dev")
	asked := i.asked.Load()
	want(t, "again", s.bearer(t, i.token(t, lab(nil))), "oidc:jane g:dev")
	if i.asked.Load() != asked {
		t.Error("the server fetches the keys for each token")
	}
	for name, token := range map[string]string{
		"required claim": i.token(t, nil),
		"audience":       i.token(t, lab(map[string]any{"aud": "other"})),
		"expired":        i.token(t, lab(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})),
		"not yet":        i.token(t, lab(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()})),
		"other issuer":   stranger.token(t, lab(nil)),
		"forged issuer":  stranger.token(t, lab(map[string]any{"iss": i.URL})),
	} {
		want(t, name, s.bearer(t, token), refused)
	}
	former := i.token(t, lab(nil))
	i.rotate(t, "k2")
	want(t, "new key", s.bearer(t, i.token(t, lab(nil))), "oidc:jane g:dev")
	want(t, "former key", s.bearer(t, former), refused)
}

// Several issuers, expressions and anonymous paths; the file is reloaded.
func TestAuthenticationConfiguration(t *testing.T) {
	one, two := newIssuer(t), newIssuer(t)
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	section := func(i *issuer, username string) string {
		return fmt.Sprintf(`
- issuer: {url: %q, audiences: [kelson, other], audienceMatchPolicy: MatchAny, certificateAuthority: %q}
  claimValidationRules: [{expression: "claims.team == 'lab'", message: "team must be lab"}]
  claimMappings:
    username: {expression: %q}
    groups: {expression: "claims.groups"}
    extra: [{key: example.com/scopes, valueExpression: "claims.scopes"}]
  userValidationRules: [{expression: "!user.username.startsWith('system:')", message: "reserved"}]`, i.URL, i.ca(), username)
	}
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true, conditions: [{path: /healthz}]}\njwt:"
	write(t, file, []byte(head+section(one, "'one:' + claims.sub")+section(two, "claims.sub")))
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{
		Config: authn.Config{ConfigFile: file}}})
	claims := map[string]any{"team": "lab", "groups": []string{"dev"}, "scopes": []string{"a"}}
	want(t, "one", s.bearer(t, one.token(t, claims)), "one:jane dev")
	want(t, "two", s.bearer(t, two.token(t, claims)), "jane dev")
	want(t, "validation", s.bearer(t, one.token(t,
		map[string]any{"team": "x", "groups": []string{}, "scopes": []string{}})), refused)
	want(t, "reserved", s.bearer(t, two.token(t, map[string]any{"team": "lab", "sub": "system:admin",
		"groups": []string{}, "scopes": []string{}})), refused)
	want(t, "anonymous elsewhere", s.who(t, nil), refused)
	health := httptest.NewRecorder()
	s.Handler().ServeHTTP(health, httptest.NewRequest("GET", "/healthz", nil))
	if health.Code != http.StatusOK {
		t.Errorf("anonymous at /healthz: %d", health.Code)
	}
	write(t, file, []byte(head+section(two, "'new:' + claims.sub")))
	want(t, "changed", s.bearer(t, two.token(t, claims)), "new:jane dev")
	want(t, "removed", s.bearer(t, one.token(t, claims)), refused)
	write(t, file, []byte(head+"nonsense"))
	want(t, "a bad file changes nothing", s.bearer(t, two.token(t, claims)), "new:jane dev")

	yes := true
	for name, cfg := range map[string]authn.Config{
		"anonymous twice": {ConfigFile: file, Anonymous: &yes},
		"oidc twice":      {ConfigFile: file, OIDC: &authn.OIDC{IssuerURL: one.URL, ClientID: "x"}},
		"half":            {OIDC: &authn.OIDC{IssuerURL: one.URL}},
		"http":            {OIDC: &authn.OIDC{IssuerURL: "http://x", ClientID: "x"}},
		"algorithm":       {OIDC: &authn.OIDC{IssuerURL: one.URL, ClientID: "x", SigningAlgs: []string{"none"}}},
	} {
		write(t, file, []byte(head+section(one, "claims.sub")))
		if _, err := authn.New(t.Context(), cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The webhook decides whether a token is valid, and its answer is cached. An unknown API version is
// an error.
func TestTokenWebhook(t *testing.T) {
	var asked atomic.Int64
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil ||
			review.APIVersion != "authentication.k8s.io/v1" {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		if review.Spec.Token == "remote" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true,
				User: authenticationv1.UserInfo{Username: "zoe", Groups: []string{"far"}}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"u","user":{}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`,
		hook.URL, base64.StdEncoding.EncodeToString(ca)))
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{Config: authn.Config{
		Webhook: &authn.Webhook{ConfigFile: file, Version: "v1", TTL: time.Hour},
	}}})
	want(t, "known", s.bearer(t, "remote"), "zoe far")
	want(t, "cached", s.bearer(t, "remote"), "zoe far")
	if n := asked.Load(); n != 1 {
		t.Errorf("the webhook was called %d times", n)
	}
	want(t, "unknown", s.bearer(t, "local"), refused)
	if _, err := authn.New(t.Context(), authn.Config{Webhook: &authn.Webhook{ConfigFile: file, Version: "v9"}}); err == nil {
		t.Error("want an error for an unknown version")
	}
}

// Headers name the user only if the request has the certificate of an allowed proxy. If users and
// proxies share an authority, the names of the proxies are required.
func TestAuthenticatingProxy(t *testing.T) {
	proxies, file := newAuthority(t, "proxies"), filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, proxies.PEM)
	header := authn.RequestHeader{
		ClientCAFile: file, AllowedNames: []string{"front"},
		Usernames: []string{"X-Remote-User"}, Groups: []string{"X-Remote-Group"},
		ExtraPrefixes: []string{"X-Remote-Extra-"},
	}
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{
		Config: authn.Config{RequestHeader: &header}}})
	headers := []string{"X-Remote-User: jane", "X-Remote-Group: dev", "X-Remote-Group: qa", "X-Remote-Extra-Scopes: a"}
	want(t, "proxy", s.who(t, certified(t, proxies, "front"), headers...), "jane dev,qa scopes[a]")
	want(t, "another name", s.who(t, certified(t, proxies, "back"), headers...), refused)
	want(t, "a user's certificate", s.who(t, certified(t, s.ca, "bob"), headers...), "bob")
	want(t, "no certificate", s.who(t, nil, headers...), "anonymous")
	want(t, "proxy without a user", s.who(t, certified(t, proxies, "front")), refused)

	overlap := authn.Config{ClientCAFile: file, RequestHeader: &authn.RequestHeader{ClientCAFile: file,
		Usernames: []string{"X-Remote-User"}}}
	if _, err := authn.New(t.Context(), overlap); err == nil ||
		!strings.Contains(err.Error(), "--requestheader-allowed-names must be specified") {
		t.Errorf("with the same authority for users and proxies: %v", err)
	}
	overlap.RequestHeader.AllowedNames = []string{"front"}
	if _, err := authn.New(t.Context(), overlap); err != nil {
		t.Errorf("with names: %v", err)
	}
	overlap.RequestHeader.Usernames = []string{" "}
	if _, err := authn.New(t.Context(), overlap); err == nil {
		t.Error("an empty header is accepted")
	}
}

// A ConfigMap lists the authorities that this server trusts, for extension API servers, and those
// that other servers wrote.
func TestTrustIsPublished(t *testing.T) {
	own, more, proxies := newAuthority(t, "own"), newAuthority(t, "more"), newAuthority(t, "proxies")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "more.crt"), more.PEM)
	write(t, filepath.Join(dir, "proxies.crt"), proxies.PEM)
	st := storetest.New(t, store.Config{})
	published := func(cfg controlplane.Config) map[string]string {
		t.Helper()
		cfg.Store, cfg.Controllers = st, controlplane.NoControllers{}
		plane := start(t, cfg)
		read, err := client(plane, "root", user.SystemPrivilegedGroup).CoreV1().ConfigMaps("kube-system").
			Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		require.NoError(t, err)
		return read.Data
	}
	if data := published(controlplane.Config{}); data != nil {
		t.Errorf("want no data: %v", data)
	}
	first := published(controlplane.Config{ClientCAs: own.Pool(), RootCA: own.PEM})
	if len(first) != 1 || first["client-ca-file"] != string(own.PEM) {
		t.Errorf("%v", first)
	}
	cfg := controlplane.Config{RootCA: own.PEM,
		Authentication: controlplane.Authentication{Config: authn.Config{ClientCAFile: filepath.Join(dir, "more.crt"),
			RequestHeader: &authn.RequestHeader{ClientCAFile: filepath.Join(dir, "proxies.crt"),
				Usernames: []string{"X-Remote-User"}, AllowedNames: []string{"a"}}}}}
	all := published(cfg)
	if all["client-ca-file"] != string(own.PEM)+string(more.PEM) ||
		all["requestheader-client-ca-file"] != string(proxies.PEM) ||
		all["requestheader-username-headers"] != `["X-Remote-User"]` || all["requestheader-group-headers"] != "[]" ||
		all["requestheader-allowed-names"] != `["a"]` {
		t.Errorf("%v", all)
	}
	revision := st.Snapshot().Revision()
	if again := published(cfg); !maps.Equal(again, all) || st.Snapshot().Revision() != revision {
		t.Errorf("a second start wrote the ConfigMap: %v", again)
	}
	cfg.Authentication.RequestHeader.AllowedNames = []string{"b", "a"}
	if data := published(cfg); data["requestheader-allowed-names"] != `["a","b"]` {
		t.Errorf("%v", data)
	}
}

// Authorities that are added to a file are published within a minute.
func TestChangedTrustIsPublished(t *testing.T) {
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	file := filepath.Join(t.TempDir(), "ca.crt")
	write(t, file, first.PEM)
	synctest.Test(t, func(t *testing.T) {
		plane := start(t, controlplane.Config{Controllers: controlplane.NoControllers{},
			Authentication: controlplane.Authentication{Config: authn.Config{ClientCAFile: file}}})
		published := func() string {
			t.Helper()
			read, err := client(plane, "root", user.SystemPrivilegedGroup).CoreV1().ConfigMaps("kube-system").
				Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
			require.NoError(t, err)
			return read.Data["client-ca-file"]
		}
		if got := published(); got != string(first.PEM) {
			t.Fatalf("published %s", got)
		}
		write(t, file, append(slices.Clone(first.PEM), second.PEM...))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := published(); got != string(first.PEM)+string(second.PEM) {
			t.Errorf("published %s", got)
		}
	})
}

// Requests without credentials are anonymous, or are refused if that is switched off. Bad
// credentials are always refused.
func TestAnonymous(t *testing.T) {
	no := false
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{
		Config: authn.Config{Anonymous: &no}}})
	want(t, "no credentials", s.who(t, nil), refused)
	want(t, "bad token", s.bearer(t, "x"), refused)
	want(t, "certificate", s.who(t, certified(t, s.ca, "root")), "root")
	with := onPort(t, controlplane.Config{})
	want(t, "let in", with.who(t, nil), "anonymous")
	want(t, "a bad token is not anonymous", with.bearer(t, "x"), refused)
	want(t, "a bad certificate is not anonymous", with.who(t, certified(t, newAuthority(t, "x"), "eve")), refused)
}

// TokenReview accepts tokens of all authenticators.
func TestTokenReview(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, file, []byte("letmein,jane,7\n"))
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{
		Config: authn.Config{TokenFile: file}}})
	for token, name := range map[string]string{"letmein": "jane", "wrong": ""} {
		var review authenticationv1.TokenReview
		answer := s.post(t, "/apis/authentication.k8s.io/v1/tokenreviews",
			fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":%q}}`, token))
		require.NoError(t, json.Unmarshal(answer, &review))
		if review.Status.User.Username != name || review.Status.Authenticated != (name != "") {
			t.Errorf("%s: %+v", token, review.Status)
		}
	}
}

// The issuer's documents, with which other services verify tokens.
func TestIssuerDiscovery(t *testing.T) {
	s := onPort(t, controlplane.Config{ServiceAccounts: controlplane.ServiceAccounts{
		Issuers: []string{"https://lab.example"}}})
	get := func(path string) (string, string) {
		t.Helper()
		resp, err := (&http.Client{Transport: s.Transport()}).Get("http://kelson" + path)
		require.NoError(t, err)
		body := require.Body(t, resp)
		return resp.Header.Get("Content-Type"), string(body)
	}
	media, body := get("/.well-known/openid-configuration")
	if media != "application/json" || !strings.Contains(body, `"issuer":"https://lab.example"`) ||
		!strings.Contains(body, `"jwks_uri":"https://lab.example/openid/v1/jwks"`) {
		t.Error(media, body)
	}
	media, body = get("/openid/v1/jwks")
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(body), &keys); err != nil || media != "application/jwk-set+json" ||
		len(keys.Keys) != 1 || !keys.Keys[0].IsPublic() {
		t.Error(media, body, err)
	}
}

// Malformed credentials cause no panic and are rejected. Failures print the seed.
func TestMalformedCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, file, []byte("letmein,jane,7\n"))
	i := newIssuer(t)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	write(t, authority, i.ca())
	s := onPort(t, controlplane.Config{Authentication: controlplane.Authentication{AcceptBootstrapTokens: true,
		Config: authn.Config{
			TokenFile: file, OIDC: &authn.OIDC{IssuerURL: i.URL, ClientID: "kelson", CAFile: authority,
				SigningAlgs: []string{"ES256"}},
			RequestHeader: &authn.RequestHeader{ClientCAFile: authority, Usernames: []string{"X-Remote-User"},
				ExtraPrefixes: []string{"X-Remote-Extra-"}},
		}}})
	seed := randomtest.Seed(t)
	random := mathrand.New(mathrand.NewPCG(seed, 1))
	good := i.token(t, nil)
	seeds := []string{
		"", " ", "Bearer", "Bearer ", "bearer  x", "Basic bGV0bWVpbg==", "Bearer letmein x", "Bearer letmein\t",
		"Bearer a.b.c", "Bearer ...", "Bearer " + good + ".x",
		"Bearer " + strings.Repeat("A", 1<<16), "Bearer aaaaaa.", "Bearer aaaaaa.0123456789abcdef",
		"Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer {\"payload\":\"\"}",
	}
	for range 300 {
		raw := []byte(good)
		for range 1 + random.IntN(4) {
			switch at := random.IntN(len(raw)); random.IntN(3) {
			case 0:
				raw[at] ^= byte(1 + random.IntN(255))
			case 1:
				raw = append(raw[:at], raw[min(len(raw), at+1+random.IntN(20)):]...)
			default:
				raw = append(raw[:at], append([]byte{".-_=a"[random.IntN(5)]}, raw[at:]...)...)
			}
			if len(raw) == 0 {
				raw = []byte("x")
			}
		}
		if base, _, _ := strings.Cut(good, "."); !strings.HasPrefix(string(raw), base) || string(raw) != good {
			seeds = append(seeds, "Bearer "+string(raw))
		}
	}
	garbage := &x509.Certificate{Raw: []byte("x")}
	for n, value := range seeds {
		req := httptest.NewRequest("GET", "/api/v1/namespaces", nil)
		req.Header["Authorization"] = []string{value}
		req.Header["X-Remote-User"] = []string{"root"}
		req.Header["X-Remote-Extra-%zz"] = []string{value}
		if n%7 == 3 {
			req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{garbage}}
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, req)
		if w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden {
			t.Errorf("seed %d, %q: %d %s", seed, value, w.Code, w.Body)
		}
	}
}
