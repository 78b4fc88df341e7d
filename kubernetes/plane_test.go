package kubernetes_test

import (
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// startPlane starts a control plane that ends with the test.
func startPlane(t testing.TB, cfg controlplane.Config) *controlplane.ControlPlane {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(plane.Stop)
	return plane
}
