package controlplane_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/version"

	"kelson.dev/kubernetes/controlplane"
)

// Clients derive supported features from the version and the minimum compatible version.
func TestVersion(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	resp, err := (&http.Client{Transport: plane.Transport()}).Get("http://kelson.in-process/version")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got version.Info
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
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
