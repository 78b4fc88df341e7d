package explore

import "testing"

// Unhealthy exports unhealthy to tests.
var Unhealthy = unhealthy

// FailureOf returns the file of an alarm.
func FailureOf(a Alarm) *Failure { return a.failure() }

// ReplayPlan exports replay to tests. It returns the alarms and the steps.
func ReplayPlan(t *testing.T, s Scenario, plan string) ([]Alarm, []string) {
	t.Helper()
	r, alarms, _, err := replay(t, s, plan)
	if err != nil {
		t.Fatal(err)
	}
	return alarms, r.steps
}
