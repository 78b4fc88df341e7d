package controlplane

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/builtin"
)

func startWithAPIs(t *testing.T, pairs map[string]string) *ControlPlane {
	t.Helper()
	apis, err := builtin.ParseAPIs(pairs)
	require.NoError(t, err)
	plane, err := Start(context.Background(), Config{APIs: apis})
	require.NoError(t, err)
	t.Cleanup(plane.Stop)
	return plane
}

func fetch(t *testing.T, plane *ControlPlane, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://plane"+path, nil)
	require.NoError(t, err)
	res, err := plane.Transport().RoundTrip(req)
	require.NoError(t, err)
	body := require.Body(t, res)
	return res.StatusCode, string(body)
}

// Discovery, APIServices and OpenAPI documents follow the selected APIs.
func TestRuntimeConfig(t *testing.T) {
	plane := startWithAPIs(t, map[string]string{"resource.k8s.io/v1beta1": "true", "batch/v1": "false"})
	for path, code := range map[string]int{
		"/apis/resource.k8s.io/v1beta1/resourceslices":                           200,
		"/apis/resource.k8s.io/v1beta2/resourceslices":                           404,
		"/apis/batch/v1/jobs":                                                    404,
		"/apis/batch":                                                            404,
		"/openapi/v3/apis/resource.k8s.io/v1beta1":                               200,
		"/openapi/v3/apis/batch/v1":                                              404,
		"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.resource.k8s.io":    200,
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.batch":                   404,
		"/apis/storagemigration.k8s.io/v1/storageversionmigrations":              200,
		"/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations":         404,
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.storagemigration.k8s.io": 200,
	} {
		if got, body := fetch(t, plane, path); got != code {
			t.Errorf("%s: %d, want %d: %.200s", path, got, code, body)
		}
	}
	if _, group := fetch(t, plane, "/apis/resource.k8s.io"); !strings.Contains(group,
		`"preferredVersion":{"groupVersion":"resource.k8s.io/v1",`) || !strings.Contains(group, "v1beta1") {
		t.Errorf("group %s", group)
	}
	if _, doc := fetch(t, plane, "/openapi/v2"); strings.Contains(doc, "/apis/batch/v1/") ||
		!strings.Contains(doc, "/apis/resource.k8s.io/v1beta1/") {
		t.Error("the OpenAPI v2 document has other paths")
	}
}

// A control plane without any version but core v1 starts and serves.
func TestCoreOnly(t *testing.T) {
	plane := startWithAPIs(t, map[string]string{"api/all": "false", "/v1": "true"})
	if code, body := fetch(t, plane, "/api/v1/namespaces/default/services/kubernetes"); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := fetch(t, plane, "/apis"); code != 200 || strings.Contains(body, "apps") {
		t.Errorf("%d %s", code, body)
	}
}
