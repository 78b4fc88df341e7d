package now

import (
	"fmt"
	"strings"
	"time"

	"kelson.dev/console/internal/inventory"
)

// ofObject returns the problems that the object's own status reports.
func ofObject(o *inventory.Object, now time.Time) []Problem {
	var all []Problem
	if o.Deleted != nil && now.Sub(*o.Deleted) > deletionTime && len(o.Finalizers) > 0 {
		all = append(all, Problem{Tone: "bad", What: "deletion waits", Text: "for finalizers: " + strings.Join(o.Finalizers, ", "), Time: *o.Deleted})
	}
	for _, w := range o.Waiting {
		all = append(all, Problem{Tone: "bad", What: "container", Text: w})
	}
	for _, c := range o.Conditions {
		if tone := conditionTone(o, c, now); tone != "" {
			text := c.Message
			if c.Reason != "" && !strings.Contains(text, c.Reason) {
				text = strings.TrimSuffix(c.Reason+": "+text, ": ")
			}
			all = append(all, Problem{Tone: tone, What: c.Type + " is " + c.Status, Text: text, Time: c.Since})
		}
	}
	if o.Observed > 0 && o.Observed < o.Generation && now.Sub(o.Created) > observeTime {
		all = append(all, Problem{Tone: "wait", What: "waits for its controller", Text: fmt.Sprintf("which has seen generation %d of %d", o.Observed, o.Generation)})
	}
	switch {
	case len(all) > 0:
	case o.Phase == "Failed" || o.Phase == "Error" || o.Phase == "Lost":
		all = append(all, Problem{Tone: "bad", What: "phase " + o.Phase, Time: o.Created})
	case o.Phase == "Pending" && now.Sub(o.Created) > observeTime:
		all = append(all, Problem{Tone: "wait", What: "phase Pending", Time: o.Created})
	case o.Replicas > 0 && o.Ready >= 0 && o.Ready < o.Replicas && len(o.Conditions) == 0:
		all = append(all, Problem{Tone: "wait", What: "waits for replicas", Text: fmt.Sprintf("%d of %d are ready", o.Ready, o.Replicas)})
	}
	return all
}

// negative are types of conditions that are problems when they are True.
var negative = []string{
	"Failed", "Failure", "Degraded", "Stalled", "Pressure", "Unavailable", "Dangling", "Error", "Violat", "DeletionContentFailure", "DiscoveryFailure", "ParsingFailure",
}

// conditionTone returns "wait" or "bad" for a condition which means that an object is not ready,
// and "" for others.
func conditionTone(o *inventory.Object, c inventory.Condition, now time.Time) string {
	for _, part := range negative {
		if strings.Contains(c.Type, part) {
			if c.Status == "True" {
				return "bad"
			}
			return ""
		}
	}
	if c.Status == "True" || c.Reason == "PodCompleted" || o.Phase == "Succeeded" {
		return ""
	}
	if c.Status == "Unknown" {
		return "wait"
	}
	switch c.Type {
	case "Ready", "Available", "Established", "NamesAccepted", "Synced", "Healthy", "Accepted", "Programmed", "ResolvedRefs", "Valid", "Scheduled", "PodScheduled", "Initialized",
		"AbleToScale", "ScalingActive", "Reconciled", "Installed", "Resolved", "Applied", "Deployed":
		if now.Sub(c.Since) < observeTime {
			return "wait"
		}
		return "bad"
	case "ContainersReady": // the condition Ready reports the same
		return ""
	case "Progressing":
		return "bad"
	}
	return "" // the meaning of other conditions is unknown
}
