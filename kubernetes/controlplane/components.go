package controlplane

import (
	"context"
	"slices"

	"kelson.dev/kubernetes/builtin"
)

// components returns the checks of the components that run in this process, for ComponentStatuses:
// the store instead of etcd, and the controllers and the scheduler unless they are left to other
// processes.
func (p *ControlPlane) components(cfg Config) builtin.Components {
	healthy := func() error { return nil }
	all := builtin.Components{"etcd-0": func() error {
		for _, check := range reachable(p.store) {
			if err := check.Func(context.Background()); err != nil {
				return err
			}
		}
		return p.store.Failed()
	}}
	if cfg.controls() && slices.ContainsFunc(ControllerNames(), cfg.selects) {
		all["controller-manager"] = healthy
	}
	if p.schedules(cfg) {
		all["scheduler"] = healthy
	}
	return all
}

// schedules reports whether the scheduler runs in this process.
func (p *ControlPlane) schedules(cfg Config) bool {
	return (p.nodes.exist() || cfg.runsWorkloads()) && cfg.selects(schedulerName)
}

// runsPodsOf reports whether this process runs the pods of a node.
func (p *ControlPlane) runsPodsOf(node string) bool {
	_, ok := p.nodes.named(node)
	return ok
}
