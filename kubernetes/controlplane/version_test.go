package controlplane_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/version"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// Clients derive supported features from the version and the minimum compatible version.
func TestVersion(t *testing.T) {
	plane := start(t, controlplane.Config{})
	resp, err := (&http.Client{Transport: plane.Transport()}).Get("http://kelson.in-process/version")
	require.NoError(t, err)
	defer resp.Body.Close()
	var got version.Info
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
	want := version.Info{
		Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "37", MinCompatibilityMajor: "1",
		MinCompatibilityMinor: "36",
		GitVersion:            controlplane.KubernetesVersion, GitTreeState: "clean",
		GoVersion: got.GoVersion, Compiler: got.Compiler, Platform: got.Platform,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
