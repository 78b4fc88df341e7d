package controlplane_test

import (
	"testing"

	"kelson.dev/server/controlplane"
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
