package explore_test

import (
	"testing"

	"kelson.dev/lab/explore"
)

// A plan that an exploration skips has the same history as the plan that it equals.
func TestEqualPlans(t *testing.T) {
	if unequal := explore.EqualPlans(t, twoSecretsScenario(false), 30); len(unequal) > 0 {
		t.Errorf("%d of 30 plans: %q", len(unequal), unequal)
	}
}
