package now

import (
	"fmt"
	"strings"
	"time"

	"kelson.dev/console/internal/inventory"
	"kelson.dev/lab/diagnosis"
)

// ofObject returns the problems that the object's own status reports.
func ofObject(o *inventory.Object, now time.Time) []Problem {
	var all []Problem
	if o.Deleted != nil && now.Sub(*o.Deleted) > deletionTime && len(o.Finalizers) > 0 {
		all = append(all, Problem{Tone: "bad", What: "deletion waits", Text: keeps(o), Time: *o.Deleted})
	}
	for _, c := range o.Containers {
		p := Problem{Tone: "bad", What: "container", Text: c.Text}
		if c.Ended {
			p.run = &run{nameOf(o), o.UID, c.Name, c.Restarts, c.Previous}
		}
		all = append(all, p)
	}
	for _, c := range o.Conditions {
		severity, problem := c.Judge(now)
		if !problem || o.Phase == "Succeeded" {
			continue
		}
		tone := "bad"
		if severity == diagnosis.Waiting {
			tone = "wait"
		}
		text := c.Message
		if c.Reason != "" && !strings.Contains(text, c.Reason) {
			text = strings.TrimSuffix(c.Reason+": "+text, ": ")
		}
		all = append(all, Problem{Tone: tone, What: c.Type + " is " + c.Status, Text: text, Time: c.Since,
			reason: c.Reason})
	}
	if o.Observed > 0 && o.Observed < o.Generation && now.Sub(o.Created) > observeTime {
		all = append(all, Problem{Tone: "wait", What: "waits for its controller",
			Text: fmt.Sprintf("which has seen generation %d of %d", o.Observed, o.Generation)})
	}
	switch {
	case len(all) > 0:
	case o.Phase == "Failed" || o.Phase == "Error" || o.Phase == "Lost":
		all = append(all, Problem{Tone: "bad", What: "phase " + o.Phase, Time: o.Created})
	case o.Phase == "Pending" && now.Sub(o.Created) > observeTime:
		all = append(all, Problem{Tone: "wait", What: "phase Pending", Time: o.Created})
	case o.Replicas > 0 && o.Ready >= 0 && o.Ready < o.Replicas && len(o.Conditions) == 0:
		all = append(all, Problem{Tone: "wait", What: waitsForReplicas,
			Text: fmt.Sprintf("%d of %d are ready", o.Ready, o.Replicas)})
	}
	return all
}

// Tone returns "bad" or "wait" if the status of an object reports a problem, the worst one, and ""
// otherwise.
func Tone(o *inventory.Object, now time.Time) string {
	tone := ""
	for _, p := range ofObject(o, now) {
		if p.Tone == "bad" {
			return p.Tone
		}
		tone = p.Tone
	}
	return tone
}

const waitsForReplicas = "waits for replicas"

// keeps says what keeps an object that is being deleted. The conditions of a namespace name its
// remaining content; its finalizers are the same in all namespaces.
func keeps(o *inventory.Object) string {
	var remaining []string
	for _, c := range o.Conditions {
		if o.Kind == "Namespace" && c.Status == "True" && strings.HasSuffix(c.Type, "Remaining") {
			remaining = append(remaining, c.Message)
		}
	}
	if len(remaining) > 0 {
		return strings.Join(remaining, "; ")
	}
	return "for finalizers: " + strings.Join(o.Finalizers, ", ")
}
