package manager_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/operator/manager"
)

// reviewers is an API server that answers TokenReviews, and SubjectAccessReviews for metrics.
type reviewers struct{ asked atomic.Int32 }

func (r *reviewers) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := func(body string) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Request: req, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	switch path := req.URL.Path; {
	case strings.HasSuffix(path, "/tokenreviews"):
		r.asked.Add(1)
		body, _ := io.ReadAll(req.Body)
		known := !strings.Contains(string(body), `"token":"stranger"`)
		name := "unknown"
		if strings.Contains(string(body), `"token":"prometheus"`) {
			name = "prometheus"
		}
		return answer(fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":%v,"user":{"username":%q,"extra":{"scopes":["metrics"]}}}}`, known, name))
	case strings.HasSuffix(path, "/subjectaccessreviews"):
		body, _ := io.ReadAll(req.Body)
		allowed := strings.Contains(string(body), `"user":"prometheus"`) &&
			strings.Contains(string(body), `"path":"/metrics"`) && strings.Contains(string(body), `"verb":"get"`) &&
			strings.Contains(string(body), `"extra":{"scopes":["metrics"]}`)
		return answer(fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":%v}}`, allowed))
	case path == "/apis/authentication.k8s.io/v1":
		return answer(`{"kind":"APIResourceList","groupVersion":"authentication.k8s.io/v1","resources":[{"name":"tokenreviews","kind":"TokenReview","namespaced":false,"verbs":["create"]}]}`)
	case path == "/apis/authorization.k8s.io/v1":
		return answer(`{"kind":"APIResourceList","groupVersion":"authorization.k8s.io/v1","resources":[{"name":"subjectaccessreviews","kind":"SubjectAccessReview","namespaced":false,"verbs":["create"]}]}`)
	}
	return &http.Response{StatusCode: 404, Request: req, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// Metrics over HTTPS require a token that the API server authenticates and authorizes. The decision
// is cached.
func TestSecureMetrics(t *testing.T) {
	server, log := &reviewers{}, &lines{}
	m, err := manager.New(manager.Config{
		REST: &rest.Config{Host: "http://reviewers", Transport: server,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		Log: slog.New(slog.NewTextHandler(log, nil)), MetricsAddress: "127.0.0.1:0",
		SecureMetrics: &manager.SecureMetrics{},
	})
	must(t, err)
	stop := require.Running(t, m.Run)
	<-m.Elected()
	_, address, _ := strings.Cut(strings.TrimSpace(log.with("serving metrics")[0]), "address=")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	get := func(token string) (code int, body string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, "https://"+address+"/metrics", nil)
		must(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		for range 12_000 { // until there is a certificate
			resp, err := c.Do(req)
			if err != nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			defer resp.Body.Close()
			data, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(data)
		}
		t.Fatal("no response")
		return 0, ""
	}
	for token, want := range map[string]int{"": 401, "stranger": 401, "someone": 403, "prometheus": 200} {
		code, body := get(token)
		if code != want || (code == 200) != strings.Contains(body, "rest_client_requests_total") {
			t.Errorf("%q gets %d, want %d: %s", token, code, want, body)
		}
	}
	before := server.asked.Load()
	if code, _ := get("prometheus"); code != 200 || server.asked.Load() != before {
		t.Errorf("%d after a repeated request", code)
	}
	stop()
}
