package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controllers/simulatedvolumes"
	"kelson.dev/kubernetes/controllers/stages"
	"kelson.dev/kubernetes/identity"
	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/process"
	"kelson.dev/kubernetes/node/simulated"
	"kelson.dev/kubernetes/scheduler"
)

// nodeName is the name of the control plane's own node.
const nodeName = "kelson"

// ErrNodes means that Config.Nodes or Config.Stages are set and Config.Node is not NodeSimulated.
var ErrNodes = errors.New("several nodes, and Stages, need simulated nodes")

// ownNodes are the nodes that the control plane runs itself. The zero value has none.
type ownNodes struct {
	agent *node.Agent // nil with NodeNone and Config.Nodes
	// simulated runs the nodes of Config.Nodes, and those that clients create; nil unless the node
	// is NodeSimulated.
	simulated *simulatednodes.Controller
	stages    *stages.Controller // nil if simulated is nil

	confinement process.Confinement // "" unless the node is NodeProcess
}

// PodConfinement returns how the pods of NodeProcess are isolated from this process, or "" with any
// other Node.
func (p *ControlPlane) PodConfinement() process.Confinement { return p.nodes.confinement }

// newNodes creates the nodes that cfg selects. Their agents are clients of p, which need not be
// complete yet.
func newNodes(cfg Config, p *ControlPlane) (*ownNodes, error) {
	var containers node.Runtime
	var err error
	var drivers []string
	n := &ownNodes{}
	if len(cfg.Nodes)+len(cfg.Stages) > 0 && cfg.Node != NodeSimulated {
		return nil, ErrNodes
	}
	switch cfg.Node {
	case NodeNone, "":
		return n, nil
	case NodeSimulated:
		runtime := simulated.New(simulated.Config{})
		containers = runtime
		if simulatesVolumes(cfg) {
			drivers = []string{simulatedvolumes.Driver}
		}
		if n.stages, err = stages.New(stages.Config{
			Store: p.store, Registry: p.registry, REST: p.controllerConfig(identity.Stages), Runtime: runtime,
			Stages: cfg.Stages, Log: cfg.Log,
		}); err != nil {
			return nil, err
		}
		groups := cfg.Nodes
		if len(groups) == 0 && len(cfg.Stages) > 0 {
			// Stages script only nodes of package simulatednodes.
			groups = []simulatednodes.Group{{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}}}
		}
		if n.simulated, err = simulatednodes.New(simulatednodes.Config{
			Store: p.store, REST: p.controllerConfig(identity.SimulatedNodes), As: p.RESTConfigAs, Runtime: runtime,
			Groups: groups, Stages: n.stages, Drivers: drivers,
			LeaseDuration: cfg.NodeLease, ExternalCloud: cfg.ExternalCloud, Log: cfg.Log,
		}); err != nil {
			return nil, err
		}
		n.stages.SetNodes(n.simulated)
		if len(groups) > 0 {
			return n, nil
		}
	case NodeProcess:
		processes, err := process.New(process.Config{
			Root: cfg.NodeDir, Hidden: cfg.NodeHidden, Unconfined: cfg.NodeUnconfined, Images: cfg.NodeImages,
			HostIP: node.MachineAddress(),
		})
		if err != nil {
			return nil, err
		}
		containers, n.confinement = processes, processes.Confinement()
		if simulatesVolumes(cfg) && n.confinement == process.ConfinedRoot {
			drivers = []string{simulatedvolumes.Driver}
		}
	default:
		return nil, fmt.Errorf("node %q: unknown", cfg.Node)
	}
	if n.agent, err = node.NewAgent(node.AgentConfig{
		Config: p.RESTConfigAs(identity.Node(nodeName)), Name: nodeName, Runtime: containers, Server: cfg.NodeServer,
		Drivers:       drivers,
		ExternalCloud: cfg.ExternalCloud, LeaseDuration: cfg.NodeLease, KeepTaints: true, Log: cfg.Log,
	}); err != nil {
		return nil, err
	}
	return n, nil
}

// simulatesVolumes reports whether the control plane provisions volumes.
func simulatesVolumes(cfg Config) bool {
	return cfg.Workloads && !cfg.NoControllers && (cfg.Node == NodeSimulated || cfg.Node == NodeProcess) &&
		cfg.Controllers.Runs(simulatedVolumesName)
}

// exist reports whether the control plane runs nodes itself.
func (n *ownNodes) exist() bool { return n.agent != nil || n.simulated != nil }

func (n *ownNodes) start(ctx context.Context, parts *parts) {
	if n.agent != nil {
		parts.run(ctx, "node agent", n.agent.Run)
	}
	if n.simulated != nil {
		parts.run(ctx, "stages", n.stages.Run)
		parts.run(ctx, "simulated nodes", func(ctx context.Context) error {
			if err := n.stages.Install(ctx); err != nil {
				return err
			}
			return n.simulated.Run(ctx)
		})
	}
}

// logs reads a container's log from the node that runs it.
func (n *ownNodes) logs(ctx context.Context, pod *corev1.Pod, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
	agent := n.agentOf(pod.Spec.NodeName)
	if agent == nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("node %q is unreachable: it has no known address",
			pod.Spec.NodeName))
	}
	return agent.Logs(ctx, pod, opts)
}

// named returns the node with a name, for exec, attach and port-forward.
func (n *ownNodes) named(name string) (builtin.Node, bool) {
	agent := n.agentOf(name)
	return agent, agent != nil
}

// agentOf returns the agent of a node that this process runs, or nil.
func (n *ownNodes) agentOf(name string) *node.Agent {
	switch {
	case n.agent != nil && name == n.agent.Name():
		return n.agent
	case n.simulated != nil:
		return n.simulated.Agent(name)
	}
	return nil
}

// startScheduler starts the scheduler, which waits for a node and a pod. Control planes that do not
// run pods have no node, so that pods that tests create there do not change.
func (p *ControlPlane) startScheduler(ctx context.Context, parts *parts, cfg Config) error {
	if !p.schedules(cfg) {
		return nil
	}
	s, err := scheduler.New(scheduler.Config{
		Store: p.store, REST: p.RESTConfigAs(identity.Scheduler), Settings: cfg.Scheduler, Waits: p.waits, Log: cfg.Log,
		Serves: func(r schema.GroupVersionResource) bool { return p.registry.Current().Serves(r, "") },
	})
	if err != nil {
		return fmt.Errorf("create scheduler: %w", err)
	}
	parts.run(ctx, "scheduler", s.Run)
	return nil
}
