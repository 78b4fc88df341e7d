package diagnosis

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Condition is a condition of an object of any kind.
type Condition struct {
	Type, Status, Reason, Message string
	Since                         time.Time // of its last transition; zero if unknown
}

// positive are types of conditions that are True if all is well. negative are parts of the names of
// conditions that are True if something is wrong. outcome are types that are not True while an
// object is at work: they report a problem only with a reason that has a part of failures.
var (
	positive = []string{
		"Ready", "Available", "Established", "NamesAccepted", "Synced", "Healthy", "Accepted", "Programmed",
		"ResolvedRefs", "Valid", "Reconciled", "Installed",
		"Resolved", "Applied", "Deployed", "Scheduled", "PodScheduled", "Initialized", "AbleToScale", "ScalingActive",
	}
	negative = []string{"Fail", "Degraded", "Stalled", "Pressure", "Unavailable", "Error", "Dangling", "Violat",
		"NonStructural", "Conflict"}
	outcome  = []string{"Succeeded", "Complete", "Completed", "Progressing"}
	failures = []string{"Fail", "Error", "Exceeded", "Timeout", "TimedOut", "Cancel", "Stopp"}
)

// intended are the reasons of conditions that are False because users want that.
var intended = []string{"PodCompleted", "ScalingDisabled"}

// Judge reports whether a condition is a problem at a time, and how bad it is, by the conventions
// of the API. A condition that has just changed, or whose status is Unknown, is Waiting. The
// meaning of other types is unknown, so they are never problems.
func (c Condition) Judge(now time.Time) (severity Severity, problem bool) {
	has := func(text string, parts []string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	switch {
	case slices.Contains(intended, c.Reason):
		return 0, false
	case has(c.Type, negative):
		problem = c.Status == "True"
	case slices.Contains(positive, c.Type):
		problem = c.Status != "True"
	case slices.Contains(outcome, c.Type):
		problem = c.Status == "False" && has(c.Reason, failures)
	}
	if problem && (c.Status == "Unknown" || !c.Since.IsZero() && now.Sub(c.Since) < patience) {
		return Waiting, true
	}
	return Broken, problem
}

// summary reports whether a condition summarizes others, and so often repeats one.
func (c Condition) summary() bool { return c.Type == "Ready" || c.Type == "Available" }

func conditionsOf(obj *unstructured.Unstructured) []Condition {
	items, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	var all []Condition
	for _, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(name string) string { s, _ := m[name].(string); return s }
		since, _ := time.Parse(time.RFC3339, text("lastTransitionTime"))
		all = append(all, Condition{text("type"), text("status"), text("reason"), text("message"), since})
	}
	return all
}

// conditions adds the conditions that report a problem, the summaries last.
func (d *diagnosing) conditions(obj *unstructured.Unstructured) {
	var last []Finding
	for _, c := range conditionsOf(obj) {
		severity, problem := c.Judge(d.Now())
		if !problem {
			continue
		}
		f := Finding{Severity: severity, Object: refOf(obj), Source: "status.conditions", Since: c.Since,
			Text: strings.TrimSuffix(c.Type+" is "+c.Status+": "+sentence(c.Reason, c.Message), ": ")}
		if c.summary() {
			last = append(last, f)
			continue
		}
		d.add(f)
	}
	for _, f := range last {
		d.add(f)
	}
}
