// Package plan runs an operator on a copy of a cluster and reports what the operator would do
// there.
//
//	state, err := plan.Cluster(ctx, config) // any Kubernetes, by requests that only read
//	defer state.Close()
//	p, err := plan.Run(ctx, state, plan.Config{Operator: operator, User: user, Install: definitions})
//	p.Text(os.Stdout, plan.TextOptions{})
//
// A State is a snapshot of all objects, in memory. Each run starts a control plane on a copy of it,
// with Kubernetes' own controllers and simulated kubelets, runs the operator there until it is
// quiet, and orders its writes into steps with their causes. Two runs on copies of the same State
// show the effects of an upgrade of the operator: see Plan.Compare.
//
// Nothing reaches the cluster. Admission webhooks are not called; requests continue as if the
// webhooks had allowed them without changes. The plan lists the webhooks that would have been
// called. Values of Secrets stay in memory and are hidden in all results, even if the operator
// copies them to other objects.
//
// Results that follow from the status of pods are marked, since no container ran.
package plan

import "kelson.dev/lab/planned"

// Plan lists what an operator would do, in order.
type Plan struct {
	planned.Plan
	ending
}

// The parts of a plan, and how it is shown.
type (
	Ref         = planned.Ref
	Step        = planned.Step
	Cause       = planned.Cause
	Write       = planned.Write
	Effect      = planned.Effect
	Installed   = planned.Installed
	Refusal     = planned.Refusal
	Difference  = planned.Difference
	TextOptions = planned.TextOptions
)
