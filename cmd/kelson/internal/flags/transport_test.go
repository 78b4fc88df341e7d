package flags

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// parsed returns the flags of requests with the given arguments.
func parsed(t *testing.T, args ...string) *Serving {
	t.Helper()
	o := &Serving{}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(f)
	require.NoError(t, f.Parse(args))
	return o
}

// certificate writes a certificate for names and its key, and returns the flag's value.
func certificate(t *testing.T, names ...string) string {
	t.Helper()
	authority, err := pki.NewAuthority("test")
	require.NoError(t, err)
	pair, err := authority.Server(names...)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for name, data := range map[string][]byte{cert: pair.CertPEM, key: pair.KeyPEM} {
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
	return cert + "," + key
}

func TestInvalidTransportFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"--tls-sni-cert-key=/nowhere/a,/nowhere/b":           "failed to load SNI cert and key",
		"--tls-curve-preferences=70000":                      "out of range",
		"--goaway-chance=0.5":                                "can not be less than 0 or greater than 0.02",
		"--http2-max-streams-per-connection=-1":              "can not be a negative value",
		"--cors-allowed-origins=example.com":                 "must start with",
		"--cors-allowed-origins=^(":                          "missing closing",
		"--strict-transport-security-directives=forever":     "allowed values: max-age=expireTime",
		"--min-request-timeout=-1":                           "can not be negative value",
		"--logging-format=xml":                               "must be text or json",
		"--tls-sni-cert-key=" + certificate(t, "a.example"):  "",
		"--cors-allowed-origins=//localhost(:|$)":            "",
		"--strict-transport-security-directives=max-age=300": "",
	} {
		err := parsed(t, arg).Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}

// Clients get the certificate for the name that they ask for.
func TestServerNames(t *testing.T) {
	o := parsed(t, "--tls-sni-cert-key="+certificate(t, "a.example.com"),
		"--tls-sni-cert-key="+certificate(t, "other")+":*.example.com,b.example.org")
	fallback := &tls.Certificate{}
	cfg := serving.Config{Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return fallback, nil
	}, Handler: http.NotFoundHandler()}
	require.NoError(t, o.ApplyServer(&cfg))
	for name, want := range map[string]string{
		"a.example.com": "a.example.com", "A.Example.com": "a.example.com", "b.example.com": "other",
		"b.example.org":   "other",
		"c.b.example.com": "", "example.com": "", "": "",
	} {
		hello := &tls.ClientHelloInfo{ServerName: name, SupportedVersions: []uint16{tls.VersionTLS13},
			SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256, tls.PSSWithSHA256},
			CipherSuites:     []uint16{tls.TLS_AES_128_GCM_SHA256}}
		got, err := cfg.Certificate(hello)
		require.NoError(t, err)
		names := ""
		if got.Leaf != nil {
			names = strings.Join(got.Leaf.DNSNames, " ")
		}
		assert.Equalf(t, names, want, "%q: certificate for", name)
	}
}

func TestHeaders(t *testing.T) {
	o := parsed(t, "--cors-allowed-origins=^https://example[.]com$",
		"--strict-transport-security-directives=max-age=300,includeSubDomains", "--goaway-chance=0.02")
	require.NoError(t, o.Check())
	h := o.transport.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	away := false
	for range 2000 { // missing in one of 10^17 runs
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Proto, req.ProtoMajor = "HTTP/2.0", 2
		req.Header.Set("Origin", "https://example.com")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		got := w.Header().Get("Access-Control-Allow-Origin")
		require.Equalf(t, got, "https://example.com", "Access-Control-Allow-Origin")
		got = w.Header().Get("Strict-Transport-Security")
		require.Equalf(t, got, "max-age=300; includeSubDomains", "Strict-Transport-Security")
		away = away || w.Header().Get("Connection") == "close"
	}
	if !away {
		t.Error("no request closed its connection")
	}
}

// Ports are shared only on request, and HTTP/2 can be turned off.
func TestSharedPortHTTP1(t *testing.T) {
	o := parsed(t, "--disable-http2-serving", "--permit-port-sharing", "--http2-max-streams-per-connection=7")
	first, err := o.Listen("127.0.0.1:0")
	if err != nil {
		t.Skip(err) // not on this system
	}
	defer first.Close()
	second, err := o.Listen(first.Addr().String())
	if err != nil {
		t.Fatal("the port is not shared: ", err)
	}
	second.Close()
	if third, err := parsed(t).Listen(first.Addr().String()); err == nil {
		third.Close()
		t.Error("a listener without the flag shares the port")
	}
	authority, err := pki.NewAuthority("test")
	require.NoError(t, err)
	cfg := serving.Config{Listener: first, Certificate: authority.Serving("127.0.0.1"),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Proto", req.Proto)
		})}
	if err := o.ApplyServer(&cfg); err != nil || cfg.MaxStreams != 7 {
		t.Fatal(err, cfg.MaxStreams)
	}
	server, err := serving.New(cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Run(t.Context()) }()
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Get(server.URL())
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equalf(t, resp.Header.Get("Proto"), "HTTP/1.1", "served over")
	client.CloseIdleConnections()
}
