package controlplane_test

import (
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// BenchmarkStartStop measures the start and stop of an empty control plane.
func BenchmarkStartStop(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		plane, err := controlplane.Start(b.Context(), controlplane.Config{})
		require.NoError(b, err)
		plane.Stop()
	}
}

// BenchmarkFork measures the start and stop of a control plane from the snapshot of another.
func BenchmarkFork(b *testing.B) {
	plane := start(b, controlplane.Config{})
	b.ReportAllocs()
	for b.Loop() {
		fork, err := controlplane.Start(b.Context(), controlplane.Config{From: plane.Store().Snapshot()})
		require.NoError(b, err)
		fork.Stop()
	}
}
