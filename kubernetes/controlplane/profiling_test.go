package controlplane_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// Profiles are served to administrators, and only if enabled.
func TestProfiling(t *testing.T) {
	for _, on := range []bool{true, false} {
		plane := start(t, controlplane.Config{Profiling: on})
		admin := &http.Client{Transport: plane.Transport()}
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1"} {
			resp, err := admin.Get("http://plane" + path)
			require.NoError(t, err)
			resp.Body.Close()
			if ok := resp.StatusCode == http.StatusOK; ok != on {
				t.Errorf("profiling %v: %s: %s", on, path, resp.Status)
			}
		}
		w := httptest.NewRecorder()
		// anonymous
		plane.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/goroutine", nil))
		if w.Code != http.StatusForbidden {
			t.Errorf("profiling %v: anonymous: %d", on, w.Code)
		}
	}
}
