package console_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// start serves a console of a cluster on loopback until the test ends.
func start(t testing.TB, cfg console.Config) *console.Console {
	t.Helper()
	var err error
	cfg.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c, err := console.New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && err != http.ErrServerClosed {
			t.Errorf("run: %v", err)
		}
	})
	return c
}

// signedIn returns the base address of a console and a client with its cookie.
func signedIn(t testing.TB, c *console.Console) (string, *http.Client) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar}
	resp, err := client.Get(c.URL())
	require.NoError(t, err)
	resp.Body.Close()
	base, _, _ := strings.Cut(c.URL(), "/?")
	return base, client
}

// fakeCluster is an API server that has no objects and counts changes.
func fakeCluster(t testing.TB, changes *int) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			_, _ = io.WriteString(w, `{"gitVersion":"v1.2.3"}`)
		case "/api":
			_, _ = io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case "/apis":
			_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		case "/api/v1":
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["get","list","watch","update","delete"]}]}`)
		default:
			if r.Method != http.MethodGet {
				*changes++
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden: User \"jane\" cannot list resource \"pods\"","reason":"Forbidden","code":403}`)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// Only the browser that opened the printed address gets answers.
func TestRefusedRequests(t *testing.T) {
	changes := 0
	c := start(t, console.Config{Cluster: fakeCluster(t, &changes)})
	base, client := signedIn(t, c)
	own, err := url.Parse(base)
	require.NoError(t, err)
	for _, tt := range []struct {
		name, method, path string
		host, cookie       string
		header             map[string]string
		code               int
		body               string
	}{
		{name: "session", path: "/api/session", code: 200, body: "v1.2.3"},
		{name: "page", path: "/object/pods/default/x", code: 200, body: "console.js"},
		{name: "own origin", path: "/api/session",
			header: map[string]string{"Origin": base, "Sec-Fetch-Site": "same-origin"}, code: 200},
		{name: "no cookie", path: "/api/session", cookie: "none", code: 401, body: "open the address"},
		{name: "no cookie for the page", path: "/", cookie: "none", code: 401, body: "token"},
		{name: "wrong cookie", path: "/api/session", cookie: "wrong", code: 401},
		{name: "wrong token", path: "/?token=0123456789abcdef0123456789abcdef", cookie: "none", code: 401,
			body: "wrong token"},
		{name: "token without effect for the API", path: "/api/session?token=x", cookie: "none", code: 401},
		{name: "foreign host", path: "/api/session", host: "attacker.example", code: 421},
		{name: "foreign host with the port", path: "/api/session", host: "attacker.example:" + own.Port(), code: 421},
		{name: "other port", path: "/api/session", host: "127.0.0.1:1", code: 421},
		{name: "localhost", path: "/api/session", host: "localhost:" + own.Port(), code: 200},
		{name: "foreign origin", path: "/api/session", header: map[string]string{"Origin": "https://attacker.example"},
			code: 403},
		{name: "origin null", path: "/api/session", header: map[string]string{"Origin": "null"}, code: 403},
		{name: "origin on another port", path: "/api/session",
			header: map[string]string{"Origin": "http://127.0.0.1:1"}, code: 403},
		{name: "origin with another scheme", path: "/api/session",
			header: map[string]string{"Origin": "https://" + own.Host}, code: 403},
		{name: "cross-site fetch", path: "/api/session",
			header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, code: 403},
		{name: "cross-site script", path: "/console.js",
			header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors",
				"Sec-Fetch-Dest": "script"}, code: 403},
		{name: "cross-site frame", path: "/", header: map[string]string{"Sec-Fetch-Site": "cross-site",
			"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, code: 403},
		{name: "another port of this host", path: "/api/session",
			header: map[string]string{"Sec-Fetch-Site": "same-site"}, code: 403},
		{name: "link from another site", path: "/",
			header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "document"}, code: 200},
		{name: "rights of the kubeconfig", path: "/api/table?resource=pods", code: 403,
			body: `User \"jane\" cannot list`},
		{name: "unknown resource", path: "/api/table?resource=cats", code: 404},
		{name: "unknown path", path: "/api/cats", code: 404},
		{name: "change without origin", method: "DELETE",
			path: "/api/object?resource=pods&namespace=default&name=x&uid=1", code: 403, body: "other sites"},
		{name: "change, read-only", method: "DELETE", path: "/api/object?resource=pods&namespace=default&name=x&uid=1",
			header: map[string]string{"Origin": base}, code: 403, body: "--write"},
		{name: "update, read-only", method: "PUT", path: "/api/object?resource=pods&namespace=default&name=x",
			header: map[string]string{"Origin": base}, code: 403, body: "--write"},
		{name: "impersonation is not passed on", path: "/api/table?resource=pods",
			header: map[string]string{"Impersonate-User": "admin"}, code: 403, body: "jane"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = http.MethodGet
			}
			req, err := http.NewRequestWithContext(t.Context(), method, base+tt.path, nil)
			require.NoError(t, err)
			if tt.host != "" {
				req.Host = tt.host
			}
			for k, v := range tt.header {
				req.Header.Set(k, v)
			}
			use := &http.Client{}
			if tt.cookie != "none" {
				for _, cookie := range client.Jar.Cookies(own) {
					if tt.cookie != "" {
						cookie.Value = tt.cookie
					}
					req.AddCookie(cookie)
				}
			}
			resp, err := use.Do(req)
			require.NoError(t, err)
			body := require.Body(t, resp)
			if resp.StatusCode != tt.code || !strings.Contains(string(body), tt.body) {
				t.Errorf("got %d, want %d: %s", resp.StatusCode, tt.code, body)
			}
			if got := resp.Header.Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") ||
				strings.Contains(got, "unsafe") {
				t.Errorf("Content-Security-Policy %q", got)
			}
			if resp.StatusCode >= 400 && strings.HasPrefix(tt.path, "/api/") {
				var e struct{ Error struct{ Message string } }
				if json.Unmarshal(body, &e) != nil || e.Error.Message == "" {
					t.Errorf("no message in %s", body)
				}
			}
		})
	}
	if changes > 0 {
		t.Errorf("%d changes reached the cluster", changes)
	}
}

// Changes that are incomplete or too large do not reach the cluster.
func TestRefusedChanges(t *testing.T) {
	changes := 0
	c := start(t, console.Config{Cluster: fakeCluster(t, &changes), Write: true})
	base, client := signedIn(t, c)
	const one = "/api/object?resource=pods&namespace=default&name=x"
	for _, tt := range []struct {
		name, method, path, body string
		code                     int
		message                  string
	}{
		{"no uid", "DELETE", one, "", 400, "uid: required"},
		{"no name", "DELETE", "/api/object?resource=pods&namespace=default&uid=1", "", 400, "name: required"},
		{"no YAML", "PUT", one, "a: b: c", 400, "mapping values"},
		{"too large", "PUT", one, "kind: Pod\n# " + strings.Repeat("x", 4<<20), 413, "larger than 4194304 bytes"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, base+tt.path, strings.NewReader(tt.body))
		require.NoError(t, err)
		req.Header.Set("Origin", base)
		resp, err := client.Do(req)
		require.NoErrorf(t, err, "%s", tt.name)
		body := string(require.Body(t, resp))
		if resp.StatusCode != tt.code || !strings.Contains(body, tt.message) {
			t.Errorf("%s: got %d: %s", tt.name, resp.StatusCode, body)
		}
	}
	assert.Equalf(t, changes, 0, "changes that reached the cluster")
}

func TestSigningIn(t *testing.T) {
	changes := 0
	c := start(t, console.Config{Cluster: fakeCluster(t, &changes)})
	resp, err := http.Get(strings.Replace(c.URL(), "/?", "//attacker.example/%5Cx?a=%22%3E%3Cscript%3E&", 1))
	require.NoError(t, err)
	body := require.Body(t, resp)
	cookie := resp.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q: no %s", cookie, want)
		}
	}
	_, token, _ := strings.Cut(c.URL(), "token=")
	if strings.Contains(string(body), token) || strings.Contains(cookie, token) {
		t.Error("the token is passed on")
	}
	if strings.Contains(string(body), "url=//") || strings.Contains(string(body), "<script") ||
		strings.Contains(string(body), `\x`) {
		t.Errorf("the page continues to another address: %s", body)
	}
}
