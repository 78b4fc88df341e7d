package filters_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/assert"
)

func get(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest("GET", path, nil)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// A panic in a handler becomes a response with status 500 and a log record.
func TestPanic(t *testing.T) {
	var log strings.Builder
	c := filters.New(filters.Config{
		Resources: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oops") }),
		Log:       slog.New(slog.NewTextHandler(&log, nil)),
	})
	w := get(c, "/api/v1/pods")
	if w.Code != 500 || !strings.Contains(w.Body.String(), "this request caused apiserver to panic") ||
		!strings.Contains(log.String(), "oops") {
		t.Errorf("%d %s\n%s", w.Code, w.Body, log.String())
	}
}

// Requests have a deadline of a minute, or of the requested timeout if it is shorter. Watches and
// logs have none, and a malformed timeout gets 400.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filters.New(filters.Config{Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, has := req.Context().Deadline()
			if !has {
				io.WriteString(w, "none")
				return
			}
			start := time.Now()
			<-req.Context().Done()
			io.WriteString(w, time.Since(start).String())
		})})
		for path, want := range map[string]string{
			"/api/v1/pods":                       "1m0s",
			"/api/v1/namespaces/x/pods/p/status": "1m0s",
			"/api/v1/pods?watch=1":               "none",
			"/api/v1/watch/pods":                 "none",
			"/api/v1/namespaces/x/pods/p/log":    "none",
			"/api/v1/namespaces/log/pods/exec":   "1m0s",
			"/api/v1/pods?timeout=5s":            "5s",
			"/api/v1/pods?timeout=5m":            "1m0s",
			"/api/v1/pods?timeout=0":             "1m0s",
			"/api/v1/pods?timeout=-1s":           "1m0s",
			"/api/v1/pods?watch=1&timeout=5s":    "none",
			"//api/v1/pods":                      "404 page not found\n",
		} {
			assert.Equalf(t, get(c, path).Body.String(), want, "%s", path)
		}
		const malformed = `invalid timeout specified in the request URL - time: invalid duration \"nope\"`
		if w := get(c, "/api/v1/pods?timeout=nope"); w.Code != 400 || !strings.Contains(w.Body.String(), malformed) {
			t.Errorf("a malformed timeout: %d %s", w.Code, w.Body)
		}
	})
}

// Shutdown waits for short requests, refuses new ones, and ends watches as a timeout does.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		c := filters.New(filters.Config{Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			<-slow
			io.WriteString(w, "done")
		})})
		client := &http.Client{Transport: &inprocess.Transport{Handler: c}}
		body := make(chan string, 1)
		go func() {
			resp, err := client.Get("http://kelson/api/v1/pods")
			if err != nil {
				body <- err.Error()
				return
			}
			raw, _ := io.ReadAll(resp.Body)
			body <- string(raw)
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIsf(t, c.Shutdown(ctx), context.DeadlineExceeded, "a request is in progress")
		w := get(c, "/healthz")
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		close(slow)
		assert.Equal(t, <-body, "done")
		assert.NoError(t, c.Shutdown(t.Context()))
	})
}

// The health paths report the checks, singly or together, and do not reveal why a check failed.
// Liveness ignores the checks of readiness.
func TestHealth(t *testing.T) {
	sick := false
	c := filters.New(filters.Config{Checks: filters.Checks{Ready: []filters.Check{{Name: "store",
		Func: func(context.Context) error {
			if sick {
				return errors.New("secret")
			}
			return nil
		}}}}})
	for _, want := range []struct {
		sick bool
		path string
		code int
		body string
	}{
		{false, "/healthz", 200, "ok"},
		{false, "/livez", 200, "ok"},
		{false, "/readyz", 200, "ok"},
		{false, "/readyz?verbose", 200, "[+]ping ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n"},
		{false, "/readyz/store", 200, "ok"},
		{false, "/readyz/other", 404, "404 page not found\n"},
		{true, "/readyz", 500, "[+]ping ok\n[-]store failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"},
		{true, "/readyz?exclude=store", 200, "ok"},
		{true, "/livez", 200, "ok"},
	} {
		sick = want.sick
		if w := get(c, want.path); w.Code != want.code || w.Body.String() != want.body {
			t.Errorf("%s: %d %q", want.path, w.Code, w.Body)
		}
	}
	sick = false
	// as in kube-apiserver
	for path, want := range map[string]string{"/readyz": "nosniff", "/readyz/store": ""} {
		got := get(c, path).Header().Get("X-Content-Type-Options")
		assert.Equalf(t, got, want, "%s: X-Content-Type-Options", path)
	}
}

// While a server that ends still accepts requests, it is alive and not ready.
func TestStopping(t *testing.T) {
	c := filters.New(filters.Config{})
	if w := get(c, "/readyz/shutdown"); w.Code != http.StatusOK {
		t.Errorf("before: %d %s", w.Code, w.Body)
	}
	c.Stopping()
	for path, want := range map[string]int{
		"/readyz": http.StatusInternalServerError, "/readyz/shutdown": http.StatusInternalServerError,
		"/livez": http.StatusOK, "/healthz": http.StatusOK, "/version": http.StatusOK,
	} {
		if w := get(c, path); w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

// The chain serves the configured paths and what is below them, the version, the index and the
// metrics. All other paths get 404.
func TestPaths(t *testing.T) {
	text := func(s string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) })
	}
	c := filters.New(filters.Config{
		Version: version.Info{Major: "1", Minor: "37", GitVersion: "v1.2.3"},
		Metrics: prometheus.NewRegistry(),
		Paths:   map[string]http.Handler{"/apis": text("root"), "/apis/": text("below"), "/openapi/v2": text("v2")},
		Below:   func() []string { return []string{"/apis/apps", "/apis"} },
		Checks: filters.Checks{Ready: []filters.Check{{Name: "store", Func: func(context.Context) error {
			return errors.New("broken")
		}}}},
	})
	for path, want := range map[string]string{
		"/apis": "root", "/apis/apps": "below", "/apis/apps/v1": "below", "/openapi/v2": "v2",
		"/openapi/v3": "404 page not found\n", "/nothing/at/all": "404 page not found\n",
	} {
		assert.Equalf(t, get(c, path).Body.String(), want, "%s", path)
	}
	assert.Contains(t, get(c, "/version").Body.String(), `"gitVersion": "v1.2.3"`)
	index := strings.Join(strings.Fields(get(c, "/").Body.String()), "")
	if index != `{"paths":["/apis","/apis/apps","/healthz","/healthz/ping","/livez","/livez/ping","/metrics","/metrics/slis","/openapi/v2","/readyz","/readyz/ping","/readyz/shutdown","/readyz/store","/version"]}` {
		t.Error(index)
	}
	assert.Equal(t, strings.Join(strings.Fields(get(c, "/index.html").Body.String()), ""), index)
	get(c, "/readyz")
	get(c, "/readyz/ping") // not counted
	slis := get(c, "/metrics/slis").Body.String()
	for _, line := range []string{
		`kubernetes_healthcheck{name="ping",type="readyz"} 1`, `kubernetes_healthcheck{name="store",type="readyz"} 0`,
		`kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 1`,
		`kubernetes_healthchecks_total{name="store",status="error",type="readyz"} 1`,
	} {
		assert.Containsf(t, slis, line+"\n", "no %s in", line)
	}
	body := get(c, "/metrics").Body.String()
	if !strings.Contains(body, `apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="GET",version=""}`) {
		t.Error(body)
	}
}

// The log, but not the response, has the reason why a credential is refused.
func TestReasonOfRefusedCredential(t *testing.T) {
	var log strings.Builder
	c := filters.New(filters.Config{
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return nil, false, errors.New("expired")
		}),
	})
	if w := get(c, "/version"); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "expired") ||
		!strings.Contains(log.String(), "expired") {
		t.Errorf("%d %s, log: %s", w.Code, w.Body, log.String())
	}
}

// members allows the group system:masters everything, and other users /healthz.
func members(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetPath() == "/healthz" {
		return authorizer.DecisionAllow, "", nil
	}
	return authz.Masters().Authorize(ctx, a)
}

func TestAuthorization(t *testing.T) {
	reached := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "reached") })
	c := filters.New(filters.Config{
		Resources: reached, Authorizer: authorizer.AuthorizerFunc(members),
		Paths: map[string]http.Handler{"/apis": reached},
	})
	as := func(path, name string, groups ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequest("GET", path, nil)
		if name != "" {
			req = req.WithContext(filters.WithUser(req.Context(), &user.DefaultInfo{Name: name, Groups: groups}))
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, req)
		return w
	}
	const pods = "/api/v1/namespaces/x/pods"
	if w := as(pods, "root", user.SystemPrivilegedGroup); w.Body.String() != "reached" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := as(pods, "bob")
	if w.Code != 403 || !strings.Contains(w.Body.String(),
		`pods is forbidden: User \"bob\" cannot list resource \"pods\" in API group \"\" in the namespace \"x\"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, want := range []struct {
		path, name string
		code       int
	}{
		{"/healthz", "", 200}, {"/healthz", "bob", 200}, {"/apis", "", 403}, {"/apis", "bob", 403},
		{"/metrics", "bob", 403}, {"/", "bob", 403},
	} {
		w := as(want.path, want.name)
		assert.Equalf(t, w.Code, want.code, "%s as %q", want.path, want.name)
	}
	if w := as("/apis", ""); !strings.Contains(w.Body.String(),
		`forbidden: User \"system:anonymous\" cannot get path \"/apis\"`) {
		t.Errorf("%s", w.Body)
	}
}

// A health endpoint and its checks have no paths with a trailing slash.
func TestHealthPaths(t *testing.T) {
	c := filters.New(filters.Config{})
	for path, code := range map[string]int{"/healthz": 200, "/healthz/ping": 200, "/healthz/": 404,
		"/healthz/ping/": 404, "/healthz/other": 404} {
		w := get(c, path)
		assert.Equalf(t, w.Code, code, "%s", path)
	}
}

// A selector of a megabyte is not parsed, even for an administrator.
func TestLongSelectors(t *testing.T) {
	c := filters.New(filters.Config{Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, strconv.Itoa(len(req.URL.Query().Get("labelSelector"))))
	})})
	const limit = 64 << 10
	for _, query := range []string{"", "watch=1&", "fieldSelector=metadata.name%3Da&"} {
		path := "/api/v1/namespaces/x/pods?" + query + "labelSelector="
		if w := get(c, path+strings.Repeat("a", limit/2)); w.Code != 200 || w.Body.String() != strconv.Itoa(limit/2) {
			t.Errorf("%s: a shorter selector: %d %s", query, w.Code, w.Body)
		}
		if w := get(c, path+strings.Repeat("a", limit+1)); w.Code != 413 ||
			!strings.Contains(w.Body.String(), "limit of selectors is 65536 bytes") {
			t.Errorf("%s: a long selector: %d %s", query, w.Code, w.Body)
		}
	}
}
