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
		all = append(all, Problem{Tone: "bad", What: "deletion waits", Text: "for finalizers: " + strings.Join(o.Finalizers, ", "), Time: *o.Deleted})
	}
	for _, w := range o.Waiting {
		all = append(all, Problem{Tone: "bad", What: "container", Text: w})
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
		all = append(all, Problem{Tone: tone, What: c.Type + " is " + c.Status, Text: text, Time: c.Since})
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
