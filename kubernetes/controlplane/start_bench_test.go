package controlplane_test

import (
	"testing"

	"kelson.dev/kubernetes/controlplane"
)

// LAB-01
func BenchmarkStartStop(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		plane, err := controlplane.Start(b.Context(), controlplane.Config{})
		if err != nil {
			b.Fatal(err)
		}
		plane.Stop()
	}
}

// LAB-01
func BenchmarkFork(b *testing.B) {
	plane, err := controlplane.Start(b.Context(), controlplane.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer plane.Stop()
	b.ReportAllocs()
	for b.Loop() {
		fork, err := controlplane.Start(b.Context(), controlplane.Config{From: plane.Store().Snapshot()})
		if err != nil {
			b.Fatal(err)
		}
		fork.Stop()
	}
}
