package diagnosis

import (
	"testing"
	"time"
)

// A condition is a problem by its type, status and reason; a recent one is Waiting.
func TestJudge(t *testing.T) {
	now := time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)
	old, recent := now.Add(-time.Hour), now.Add(-patience/2)
	for _, tt := range []struct {
		c    Condition
		want string
	}{
		{Condition{Type: "Ready", Status: "True", Since: old}, ""},
		{Condition{Type: "Ready", Status: "False", Since: old}, "broken"},
		{Condition{Type: "Ready", Status: "False"}, "broken"},
		{Condition{Type: "Ready", Status: "False", Since: recent}, "waiting"},
		{Condition{Type: "Ready", Status: "Unknown", Since: old}, "waiting"},
		{Condition{Type: "Ready", Status: "False", Reason: "PodCompleted", Since: old}, ""},
		{Condition{Type: "ContainersReady", Status: "False", Since: old}, ""},
		{Condition{Type: "MemoryPressure", Status: "True", Since: old}, "broken"},
		{Condition{Type: "MemoryPressure", Status: "False", Since: old}, ""},
		{Condition{Type: "MemoryPressure", Status: "Unknown", Since: old}, ""},
		{Condition{Type: "PodScheduled", Status: "False", Since: old}, "broken"},
		{Condition{Type: "ScalingActive", Status: "False", Reason: "ScalingDisabled", Since: old}, ""},
		{Condition{Type: "ScalingActive", Status: "False", Reason: "FailedGetResourceMetric", Since: old}, "broken"},
		// while an object is at work
		{Condition{Type: "Succeeded", Status: "False", Reason: "Running", Since: old}, ""},
		{Condition{Type: "Succeeded", Status: "Unknown", Since: old}, ""},
		{Condition{Type: "Complete", Status: "False", Since: old}, ""},
		{Condition{Type: "Progressing", Status: "False", Reason: "AsExpected", Since: old}, ""},
		// and after it has failed
		{Condition{Type: "Succeeded", Status: "False", Reason: "TaskRunTimeout", Since: old}, "broken"},
		{Condition{Type: "Progressing", Status: "False", Reason: "ProgressDeadlineExceeded", Since: old}, "broken"},
		{Condition{Type: "Progressing", Status: "False", Reason: "ProgressDeadlineExceeded", Since: recent}, "waiting"},
		{Condition{Type: "Sunny", Status: "False", Since: old}, ""}, // unknown
	} {
		got := ""
		if severity, problem := tt.c.Judge(now); problem {
			got = severity.String()
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.c, got, tt.want)
		}
	}
}
