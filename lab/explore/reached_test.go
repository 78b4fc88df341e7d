package explore_test

import (
	"testing"

	"kelson.dev/lab/explore"
)

// LAB-03: plans that an exploration leaves out have the history of the plan that they are said to
// equal.
func TestEqualPlans(t *testing.T) {
	if unequal := explore.EqualPlans(t, twoSecretsScenario(false), 60); len(unequal) > 0 {
		t.Errorf("%d of 60 plans: %q", len(unequal), unequal)
	}
}
