package testenv_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/version"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
)

// A control plane behaves like an older release; the next control plane of the same process can
// behave like a different one.
func TestEmulatedVersion(t *testing.T) {
	for release, status := range map[string]int{"1.34": http.StatusNotFound, "1.37": http.StatusOK} {
		t.Run(release, func(t *testing.T) {
			env := testenv.New(t, testenv.EmulatedVersion(release), testenv.NoControllers())
			client := &http.Client{Transport: env.RESTConfig().Transport}
			get := func(path string) *http.Response {
				resp, err := client.Get(env.RESTConfig().Host + path)
				require.NoError(t, err)
				t.Cleanup(func() { resp.Body.Close() })
				return resp
			}
			var info version.Info
			require.NoError(t, json.NewDecoder(get("/version").Body).Decode(&info))
			if got := info.EmulationMajor + "." + info.EmulationMinor; got != release || info.Minor != "37" {
				t.Errorf("/version: %+v", info)
			}
			// stable since 1.36
			got := get("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies").StatusCode
			assert.Equalf(t, got, status, "mutatingadmissionpolicies")
		})
	}
}
