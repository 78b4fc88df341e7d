package lab_test

import (
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/diagnosis"
)

// A condition is a problem by its type, status and reason; a recent one is Waiting.
func TestJudge(t *testing.T) {
	now := time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)
	old, recent := now.Add(-time.Hour), now.Add(-5*time.Second)
	for _, tt := range []struct {
		c    diagnosis.Condition
		want string
	}{
		{diagnosis.Condition{Type: "Ready", Status: "True", Since: old}, ""},
		{diagnosis.Condition{Type: "Ready", Status: "False", Since: old}, "broken"},
		{diagnosis.Condition{Type: "Ready", Status: "False"}, "broken"},
		{diagnosis.Condition{Type: "Ready", Status: "False", Since: recent}, "waiting"},
		{diagnosis.Condition{Type: "Ready", Status: "Unknown", Since: old}, "waiting"},
		{diagnosis.Condition{Type: "Ready", Status: "False", Reason: "PodCompleted", Since: old}, ""},
		{diagnosis.Condition{Type: "ContainersReady", Status: "False", Since: old}, ""},
		{diagnosis.Condition{Type: "MemoryPressure", Status: "True", Since: old}, "broken"},
		{diagnosis.Condition{Type: "MemoryPressure", Status: "False", Since: old}, ""},
		{diagnosis.Condition{Type: "MemoryPressure", Status: "Unknown", Since: old}, ""},
		{diagnosis.Condition{Type: "PodScheduled", Status: "False", Since: old}, "broken"},
		{diagnosis.Condition{Type: "ScalingActive", Status: "False", Reason: "ScalingDisabled", Since: old}, ""},
		{diagnosis.Condition{Type: "ScalingActive", Status: "False", Reason: "FailedGetResourceMetric", Since: old}, "broken"},
		// while an object is at work
		{diagnosis.Condition{Type: "Succeeded", Status: "False", Reason: "Running", Since: old}, ""},
		{diagnosis.Condition{Type: "Succeeded", Status: "Unknown", Since: old}, ""},
		{diagnosis.Condition{Type: "Complete", Status: "False", Since: old}, ""},
		{diagnosis.Condition{Type: "Progressing", Status: "False", Reason: "AsExpected", Since: old}, ""},
		// and after it has failed
		{diagnosis.Condition{Type: "Succeeded", Status: "False", Reason: "TaskRunTimeout", Since: old}, "broken"},
		{diagnosis.Condition{Type: "Progressing", Status: "False", Reason: "ProgressDeadlineExceeded", Since: old}, "broken"},
		{diagnosis.Condition{Type: "Progressing", Status: "False", Reason: "ProgressDeadlineExceeded", Since: recent}, "waiting"},
		{diagnosis.Condition{Type: "Sunny", Status: "False", Since: old}, ""}, // unknown
	} {
		got := ""
		if severity, problem := tt.c.Judge(now); problem {
			got = severity.String()
		}
		assert.Equalf(t, got, tt.want, "%+v", tt.c)
	}
}
