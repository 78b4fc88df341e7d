package controller_test

import (
	"testing"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"

	"kelson.dev/examples/cnat/internal/controller"
)

// scenario is a user who creates an At.
func scenario(t *testing.T, schedule string) explore.Scenario {
	return explore.Scenario{
		Env: []testenv.Option{testenv.Scheme(scheme(t)), testenv.CRDs("../../config/crd/bases"),
			testenv.RBAC("../../config/rbac"),
			testenv.Nodes(controlplane.Simulated{})},
		Operator: explore.Parts(controller.Parts()...),
		Inputs:   []explore.Input{explore.Create(at(schedule, "echo YAY"))},
		Invariants: []explore.Invariant{{Name: "one pod of an At may run", Kind: "Pod",
			Rule: `object == null || all.Pod.filter(p, !has(p.spec.schedulingGates) &&
				p.metadata.ownerReferences[0].uid == object.metadata.ownerReferences[0].uid).size() <= 1`}},
	}
}

// No single fault of a process, the network or the API server makes cnat run a command twice, skip
// it or leave objects behind.
func TestExplore(t *testing.T) { explore.Run(t, scenario(t, "2000-01-01T01:00:00Z")) }

// This includes faults while the command starts.
func TestExploreStart(t *testing.T) { explore.Run(t, scenario(t, "1999-12-31T23:59:59Z")) }
