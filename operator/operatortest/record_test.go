package operatortest_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/operatortest/record"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// protobufStatus returns a Status as servers send it to clients of protobuf.
func protobufStatus(t *testing.T, message string) string {
	t.Helper()
	var out bytes.Buffer
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Message: message,
		Code: http.StatusForbidden}
	require.NoError(t, protobuf.NewSerializer(nil, nil).Encode(status, &out))
	return out.String()
}

// Each request is recorded once. A refusal by RBAC is recorded with its message; a refusal by
// admission is recorded as an ordinary request. The path of the server is omitted, because rules
// are for the paths below it. Without the variable, nothing is recorded.
func TestWrap(t *testing.T) {
	rbac := `{"kind":"Status","message":"pods is forbidden: User \"x\" cannot list resource \"pods\" in API group \"\" at the cluster scope"}`
	server := roundTripper(func(r *http.Request) (*http.Response, error) {
		code, body := http.StatusOK, "{}"
		switch r.URL.Path {
		case "/api/v1/pods":
			code, body = http.StatusForbidden, rbac
		case "/api/v1/nodes":
			code, body = http.StatusForbidden,
				protobufStatus(t, `nodes is forbidden: User "x" cannot list resource "nodes" in API group "" at the cluster scope`)
		case "/api/v1/namespaces/a/services/v":
			code = http.StatusCreated
		case "/api/v1/namespaces/a/secrets":
			code, body = http.StatusForbidden,
				`{"kind":"Status","message":"admission webhook \"w\" denied the request"}`
		}
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body))}, nil
	})
	send := func(config *rest.Config, method, path string) string {
		t.Helper()
		rt, err := rest.TransportFor(config)
		require.NoError(t, err)
		r, err := http.NewRequest(method, "http://server"+path, strings.NewReader(`{"metadata":{"name":"n"}}`))
		require.NoError(t, err)
		resp, err := rt.RoundTrip(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(body)
	}
	config := &rest.Config{Host: "http://server", Transport: server,
		Impersonate: rest.ImpersonationConfig{UserName: "operator"}}
	record.Wrap(config)
	if config.WrapTransport != nil || config.Impersonate.UserName == "" {
		t.Error("recorded without the variable")
	}
	dir := t.TempDir()
	t.Setenv(record.Dir, dir)
	record.Wrap(config)
	if config.Impersonate.UserName != "" {
		t.Error("without roles, the operator does not have an administrator's rights")
	}
	for range 2 {
		assert.Equalf(t, send(config, http.MethodGet, "/api/v1/pods"), rbac, "the body of a refusal")
		send(config, http.MethodPost, "/api/v1/namespaces/a/secrets")
		send(config, http.MethodPut, "/apis/apps/v1/namespaces/a/deployments/d/status")
		send(config, http.MethodGet, "/metrics")
		send(config, http.MethodGet, "/api/v1/nodes")
		send(config, http.MethodGet, "/api/v1/namespaces/a/secrets?watch=1&fieldSelector=metadata.name%3Ds")
		send(config, http.MethodPatch, "/api/v1/namespaces/a/services/v")
	}
	plane := &rest.Config{Host: "http://server/planes/1", Transport: server}
	record.Wrap(plane)
	send(plane, http.MethodGet, "/planes/1/apis/apps/v1")
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	text := string(data)
	n := strings.Count(text, "\n")
	assert.Equalf(t, n, 11, "lines, want 8 requests, a creation by a patch and two refusals:\n%s", text)
	for _, want := range []string{
		`"verb":"list","user":{"username":"operator"},"objectRef":{"resource":"pods"}`,
		`"code":403,"message":"pods is forbidden`, `"code":403,"message":"nodes is forbidden`,
		`"objectRef":{"resource":"deployments","namespace":"a","apiGroup":"apps","subresource":"status","name":"d"}`,
		`"verb":"watch","user":{"username":"operator"},"objectRef":{"resource":"secrets","namespace":"a","name":"s"}`,
		`"verb":"patch","user":{"username":"operator"},"objectRef":{"resource":"services","namespace":"a","name":"v"},"responseStatus":{"code":201}`,
		`"verb":"create","user":{"username":"operator"},"objectRef":{"resource":"secrets","namespace":"a"}`,
		`"requestURI":"/metrics","verb":"get"`, `"requestURI":"/apis/apps/v1","verb":"get"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
