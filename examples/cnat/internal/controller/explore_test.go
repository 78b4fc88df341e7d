package controller_test

import (
	"testing"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"

	"kelson.dev/examples/cnat/internal/controller"
)

// LAB-03: no single fault of a process, the network or the API server makes cnat run a command
// twice, skip it or leave objects behind.
func TestExplore(t *testing.T) {
	explore.Run(t, explore.Scenario{
		Env: []testenv.Option{testenv.Scheme(scheme(t)), testenv.CRDs("../../config/crd/bases"), testenv.RBAC("../../config/rbac"),
			testenv.Nodes(controlplane.NodeSimulated)},
		Operator: explore.Parts(controller.Parts()...),
		Inputs:   []explore.Input{explore.Create(at("2000-01-01T01:00:00Z", "echo YAY"))},
	})
}
