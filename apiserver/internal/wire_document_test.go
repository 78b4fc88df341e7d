package internal_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"kelson.dev/apiserver/rest/wire"
)

// A document with one media type is served to GET requests that accept this type or all types.
// Other GET requests get 406, and other methods 405.
func TestDocument(t *testing.T) {
	h := wire.Document("application/jwk-set+json", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})
	for _, c := range []struct {
		method, accept string
		code           int
		contentType    string
	}{
		{"GET", "", 200, ""}, {"GET", "*/*", 200, ""}, {"GET", "text/html, application/jwk-set+json;q=0.5", 200, ""},
		{"GET", "application/yaml", 406, "application/yaml"}, {"GET", "application/*", 406, "application/json"},
		{"GET", "text/html", 406, "application/json"},
		{"GET", "application/vnd.kubernetes.protobuf", 406, "application/vnd.kubernetes.protobuf"},
		{"HEAD", "", 405, "application/json"}, {"POST", "", 405, "application/json"},
	} {
		req := httptest.NewRequest(c.method, "/", nil)
		if c.accept != "" {
			req.Header.Set("Accept", c.accept)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != c.code || w.Header().Get("Content-Type") != c.contentType {
			t.Errorf("%s %q: %d %v", c.method, c.accept, w.Code, w.Header())
		}
	}
}
