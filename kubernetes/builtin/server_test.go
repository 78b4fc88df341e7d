package builtin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/fastpath"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// server serves the built-in kinds from a store in memory, without a network.
type server struct {
	t       testing.TB
	handler http.Handler
	store   *store.Store
}

func serve(t testing.TB, cfg Config) *server {
	t.Helper()
	st, err := store.Open(store.Config{})
	require.NoError(t, err)
	return serveStore(t, cfg, st)
}

func serveStore(t testing.TB, cfg Config, st *store.Store) *server {
	t.Helper()
	t.Cleanup(func() { st.Close() })
	var handler *rest.Handler
	cfg.Store = st
	cfg.Objects = func() resource.Objects { return handler }
	cfg.NoFastPaths = cfg.NoFastPaths || fastpath.DisabledByEnvironment()
	list, err := Resources(cfg)
	require.NoError(t, err)
	handler = rest.New(rest.Config{Store: st, Registry: resource.NewRegistry(list...), NoFastPaths: cfg.NoFastPaths})
	return &server{t, handler, st}
}

// send sends a request as the user "admin". The method APPLY is a server-side apply.
func (s *server) send(method, target, body string, accept ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	media := "application/yaml"
	switch method {
	case "APPLY":
		method, media = http.MethodPatch, "application/apply-patch+yaml"
		target += "?fieldManager=test"
	case http.MethodPatch:
		media = "application/strategic-merge-patch+json"
	}
	req := httptest.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(body))
	req.Header.Set("Content-Type", media)
	req.Header["Accept"] = accept
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(req)
	require.NoError(s.t, err)
	ctx := request.WithRequestInfo(req.Context(), info)
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters"}})
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, req.WithContext(warning.WithWarningRecorder(ctx, warnings{w})))
	return w
}

// warnings adds warnings to the headers of a response.
type warnings struct{ w http.ResponseWriter }

func (r warnings) AddWarning(_, text string) { r.w.Header().Add("Warning", text) }

// do sends a request, checks the status code and returns the response.
func (s *server) do(code int, method, target, body string) *unstructured.Unstructured {
	s.t.Helper()
	w := s.send(method, target, body)
	if w.Code != code {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, target, w.Code, code, w.Body)
	}
	out := &unstructured.Unstructured{}
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &out.Object); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, target, err, w.Body)
		}
	}
	return out
}

// refused sends a request that must fail, checks the status code and reason of the error, and
// returns its message.
func (s *server) refused(code int, reason metav1.StatusReason, method, target, body string) string {
	s.t.Helper()
	status := s.do(code, method, target, body)
	if got := str(status, "reason"); got != string(reason) {
		s.t.Errorf("%s %s: reason %q, want %q: %s", method, target, got, reason, str(status, "message"))
	}
	return str(status, "message")
}

// str returns the string at a path. It returns values of other types as JSON.
func str(u *unstructured.Unstructured, path ...string) string {
	v, ok, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	if s, isString := v.(string); isString || !ok {
		return s
	}
	data, _ := json.Marshal(v)
	return string(data)
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	assert.Equalf(t, got, want, "%s", what)
}
