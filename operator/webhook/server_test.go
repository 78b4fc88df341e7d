package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/webhook"
)

// A path matches only itself; other patterns of http.ServeMux are errors.
func TestRegister(t *testing.T) {
	s := webhook.NewServer(webhook.Config{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })
	for path, ok := range map[string]bool{
		"/validate--v1-pod": true, "/a.b/c_d~e:f": true, "/tree/": true, "/": true,
		"": false, "x": false, "example.com/x": false, "POST /x": false, "/validate-{a}": false, "/{a}": false,
		"/{$}": false, "/x y": false,
		"/a//b": false, "//": false, "/a/../b": false, "/./a": false, "/a?b": false, "/a%62": false, "/\xff": false,
	} {
		err := s.Register(path, handler)
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "register webhook: invalid path") {
			t.Errorf("%q: %v", path, err)
		}
		if !ok {
			continue
		}
		assert.ErrorContainsf(t, s.Register(path, handler), "already registered", "%q again", path)
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil)); w.Body.String() != path {
			t.Errorf("%q answers %d %s", path, w.Code, w.Body)
		}
	}
}
