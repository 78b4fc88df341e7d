// Package planned has the result of [kelson.dev/lab/plan]: what an operator would do in a cluster,
// as data, text and Markdown. A program that shows plans needs neither a control plane nor an
// operator.
package planned

import (
	"fmt"
	"strings"

	"kelson.dev/lab/history"
)

// Plan lists what an operator would do, in order.
type Plan struct {
	// Cluster describes the state that the operator ran on; Objects is the number of its objects.
	Cluster string `json:"cluster"`
	Objects int    `json:"objects"`
	// Installed are the objects that were created or changed before the operator started: the
	// definitions and roles that belong to it.
	Installed []Installed `json:"installed,omitempty"`
	// Steps are the reconciles that wrote something or failed, in the order of their first writes.
	Steps []Step `json:"steps"`
	// Refused are requests that the server rejected.
	Refused []Refusal `json:"refused,omitempty"`
	// Incomplete is the reason why the plan may be incomplete, such as an operator that was still
	// working at the time limit, or "".
	Incomplete string `json:"incomplete,omitempty"`
	// Notes are limits of this plan, such as kinds that could not be read.
	Notes []string `json:"notes,omitempty"`
	// Differences are objects whose final states differ from those with the other version of the
	// operator, if the plan was compared with it. Compared names that version, or is "".
	Differences []Difference `json:"differences,omitempty"`
	Compared    string       `json:"compared,omitempty"`
}

// Ref names an object.
type Ref struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Resource  string `json:"resource"` // plural
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// String returns RESOURCE.GROUP/NAMESPACE/NAME, as kelson diff prints it.
func (r Ref) String() string {
	parts := []string{r.GroupResource()}
	if r.Namespace != "" {
		parts = append(parts, r.Namespace)
	}
	if r.Name != "" {
		parts = append(parts, r.Name)
	}
	return strings.Join(parts, "/")
}

// GroupResource returns the resource with its group, such as deployments.apps.
func (r Ref) GroupResource() string { return strings.TrimSuffix(r.Resource+"."+r.Group, ".") }

// Verbs of writes.
const (
	Create = "create"
	Update = "update"
	Delete = "delete"
)

// Step is one reconcile, or one write if the operator does not record its reconciles.
type Step struct {
	Number int `json:"number"` // from 1
	// Controller and Object are the controller and the object that it reconciled; empty if unknown.
	Controller string `json:"controller,omitempty"`
	Object     *Ref   `json:"object,omitempty"`
	// Because are the causes.
	Because []Cause `json:"because,omitempty"`
	Writes  []Write `json:"writes,omitempty"`
	// Error is the error of the reconcile. Times is the number of times that the same reconcile
	// failed with it.
	Error string `json:"error,omitempty"`
	Times int    `json:"times,omitempty"`
	// Simulated describes how the step depends on pods that did not really run, or is "".
	Simulated string `json:"simulated,omitempty"`
}

// Cause is a reason for a step.
type Cause struct {
	Text string `json:"text"`
	// Step is the number of the step that led to this one, or 0.
	Step int `json:"step,omitempty"`
	// Probably means that the cause is inferred from what the operator received and wrote.
	Probably bool `json:"probably,omitempty"`
}

// Write is a change of an object.
type Write struct {
	// Verb is the kind of change: Create, Update or Delete.
	Verb string `json:"verb"`
	// Subresource is the subresource of the request, such as status.
	Subresource string           `json:"subresource,omitempty"`
	Object      Ref              `json:"object"`
	Changes     []history.Change `json:"changes,omitempty"`
	// Webhooks are the webhooks that would have been called. They could have changed or rejected
	// the write.
	Webhooks []string `json:"webhooks,omitempty"`
	// Effects are the changes of this object's dependents by Kubernetes' controllers.
	Effects []Effect `json:"effects,omitempty"`
}

// Effect is a change by Kubernetes' controllers.
type Effect struct {
	Verb   string `json:"verb"`
	Object Ref    `json:"object"`
}

// Installed is an object that belongs to the operator.
type Installed struct {
	Verb    string           `json:"verb"`
	Object  Ref              `json:"object"`
	Changes []history.Change `json:"changes,omitempty"`
}

// Refusal is a request that the server rejected, Times times.
type Refusal struct {
	Verb        string `json:"verb"` // as in RBAC rules
	Subresource string `json:"subresource,omitempty"`
	Object      Ref    `json:"object"`
	Message     string `json:"message"`
	Times       int    `json:"times"`
}

// Difference is an object whose final states differ between two versions of an operator.
type Difference struct {
	Object Ref `json:"object"`
	// Only is "new" or "old" if the object exists with one version only.
	Only string `json:"only,omitempty"`
	// Changes are the differences from the final state with the old version to the one with the new
	// version.
	Changes []history.Change `json:"changes,omitempty"`
	// Steps are the steps of the new version that wrote the object.
	Steps []int `json:"steps,omitempty"`
}

// Empty reports whether the operator would do nothing or, after a comparison, whether it would do
// the same as the other version.
func (p *Plan) Empty() bool {
	if p.Compared != "" {
		return len(p.Differences) == 0 && len(p.Refused) == 0
	}
	return len(p.Steps) == 0 && len(p.Refused) == 0
}

// Summary returns a line with the numbers of changes.
func (p *Plan) Summary() string {
	counts := map[string]int{}
	objects := map[string]bool{}
	failed := 0
	for _, s := range p.Steps {
		if s.Error != "" {
			failed++
		}
		for _, w := range s.Writes {
			if key := w.Verb + " " + w.Object.String(); !objects[key] {
				objects[key] = true
				counts[w.Verb]++
			}
		}
	}
	text := fmt.Sprintf("%d to create, %d to update, %d to delete", counts[Create], counts[Update], counts[Delete])
	if len(p.Refused) > 0 {
		text += fmt.Sprintf(", %d refused", len(p.Refused))
	}
	if failed > 0 {
		text += fmt.Sprintf(", %d failing", failed)
	}
	return text
}
