package flowcontrol

import (
	"math"
	"testing"
)

// Seats are divided in proportion to the targets, within bounds.
func TestAllocate(t *testing.T) {
	for _, test := range []struct {
		name   string
		sum    float64
		wishes []wish
		want   []float64
	}{
		{"in proportion", 90, []wish{{0, 100, 10}, {0, 100, 20}}, []float64{30, 60}},
		{"a lower bound", 90, []wish{{50, 100, 50}, {0, 100, 100}}, []float64{50, 40}},
		{"an upper bound", 90, []wish{{0, 10, 50}, {0, 100, 50}}, []float64{10, 80}},
		{"no target", 10, []wish{{0, 100, 0}, {0, 100, 0}}, []float64{5, 5}},
		{"too little", 10, []wish{{20, 100, 20}, {5, 100, 5}}, []float64{20, 5}},
		{"too much", 1000, []wish{{0, 10, 1}, {0, 20, 1}}, []float64{10, 20}},
		{"none", 10, nil, nil},
	} {
		got := allocate(test.sum, test.wishes)
		for i := range test.want {
			if math.Abs(got[i]-test.want[i]) > 1e-6 {
				t.Errorf("%s: %v, want %v", test.name, got, test.want)
				break
			}
		}
	}
}
