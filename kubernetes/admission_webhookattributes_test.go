package kubernetes_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/test/admission/attributes"
)

// Admission sees the same attributes of every request as kube-apiserver's: every verb, on objects
// and subresources of every scope. make differential writes the expectations.
func TestAttributesOfRequests(t *testing.T) {
	want, err := attributes.OfKubeAPIServer()
	require.NoError(t, err)
	c := startWith(t, controlplane.Config{Controllers: controlplane.NoControllers{},
		Admission: controlplane.Admission{Disable: []string{"ServiceAccount"}}})
	cfg := c.plane.RESTConfig()
	client, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	hook, err := attributes.NewRecorder()
	require.NoError(t, err)
	t.Cleanup(hook.Close)
	const own = "d-s1-admission-attributes"
	send := func(r attributes.Request, header map[string]string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), r.Method, cfg.Host+r.Path, strings.NewReader(r.Body))
		require.NoError(t, err)
		req.Header.Set("User-Agent", "differential/1") // names the field manager
		if r.ContentType != "" {
			req.Header.Set("Content-Type", r.ContentType)
		}
		for key, value := range header {
			req.Header.Set(key, value)
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, r := range attributes.Definitions(own) {
		code := send(r, nil)
		require.Equalf(t, code/100, 2, "%s: %d", r.Name, code)
	}
	for i, of := range attributes.Configurations {
		code := send(attributes.Request{Method: http.MethodPost, Path: of.Path, ContentType: "application/json",
			Body: hook.Configuration(i, own)}, nil)
		require.Equalf(t, code, http.StatusCreated, "%s", of.Kind)
	}
	requests := attributes.Requests(own)
	if len(requests) != len(want) {
		t.Errorf("%d requests, and expectations for %d: run make differential", len(requests), len(want))
	}
	for _, r := range requests {
		code := send(r, attributes.Impersonation)
		got := attributes.Record(r.Name, own, code, hook.Take())
		expected, ok := want[r.Name]
		if !ok {
			t.Errorf("%s: no expectation: run make differential", r.Name)
			continue
		}
		if !r.Unanswered && got.Status != expected.Status {
			t.Errorf("%s: %s %s: status %d, want %d", r.Name, r.Method, r.Path, got.Status, expected.Status)
		}
		if !slices.Equal(got.Calls, expected.Calls) {
			t.Errorf("%s: %s %s\n got %s\nwant %s", r.Name, r.Method, r.Path, strings.Join(got.Calls, "\n     "),
				strings.Join(expected.Calls, "\n     "))
		}
	}
}
