package controlplane

import (
	"context"
	"fmt"
	"io"
	"time"

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
	"kelson.dev/kubernetes/node/stage"
	"kelson.dev/kubernetes/scheduler"
)

// nodeName is the name of the control plane's own node.
const nodeName = "kelson"

// NodeLease is how long a node counts as alive after its last heartbeat in a cluster.
const NodeLease = 40 * time.Second

// Node runs the pods of a control plane: [Simulated] or [Processes].
type Node interface {
	// lease returns how long the node counts as alive after its last heartbeat; 0 means that it has
	// no Lease.
	lease() time.Duration
}

// Simulated takes pods through the lifecycle that their spec describes, without running anything.
// Further Nodes are simulated if they have the annotation kwok.x-k8s.io/node=fake; see package
// simulatednodes.
type Simulated struct {
	// Groups are the nodes; none means a single one.
	Groups []simulatednodes.Group
	// Stages are installed at the start and script what the nodes and their pods do; see package
	// stages.
	Stages []*stage.Stage
	// Lease is how long a node counts as alive after its last heartbeat, usually NodeLease. If 0,
	// nodes have no Leases and are always alive: in virtual time, renewing one every ten seconds
	// would be most of the work of a simulated month.
	Lease time.Duration
}

// Processes runs the containers' commands as processes of this machine. Unless Unconfined is set,
// package process confines them.
type Processes struct {
	// Dir is where the node keeps the directories and logs of containers.
	Dir string
	// Hidden lists files and directories that pods cannot access, for example the data directory.
	Hidden []string
	// Unconfined runs the pods as the user of this process, with access to all its files.
	Unconfined bool
	// Server is the address ("host:port") at which pods reach this control plane; "" means that
	// they can't.
	Server string
	// Images has directories with the files of images, by the names of the images, for the root
	// directories of containers.
	Images map[string]string
	// Lease is as in Simulated.
	Lease time.Duration
}

func (n Simulated) lease() time.Duration { return n.Lease }
func (n Processes) lease() time.Duration { return n.Lease }

// ownNodes are the nodes that the control plane runs itself. The zero value has none.
type ownNodes struct {
	agent *node.Agent // nil without a Node, and with groups of simulated nodes
	// simulated runs the groups of simulated nodes, and those that clients create; nil unless the
	// node is Simulated.
	simulated *simulatednodes.Controller
	stages    *stages.Controller // nil if simulated is nil

	confinement process.Confinement // "" unless the node is Processes
}

// PodConfinement returns how the pods of Processes are isolated from this process, or "" with any
// other Node.
func (p *ControlPlane) PodConfinement() process.Confinement { return p.nodes.confinement }

// newNodes creates the nodes that cfg selects. Their agents are clients of p, which need not be
// complete yet.
func newNodes(cfg Config, p *ControlPlane) (*ownNodes, error) {
	n := &ownNodes{}
	var drivers []string // of the volumes that the control plane provisions
	if simulatesVolumes(cfg) {
		drivers = []string{simulatedvolumes.Driver}
	}
	var agent node.AgentConfig // of the control plane's own node
	switch selected := cfg.Node.(type) {
	case nil:
		return n, nil
	case Simulated:
		single, runtime, err := n.simulate(cfg, selected, p, drivers)
		if err != nil || !single {
			return n, err
		}
		agent.Runtime, agent.Drivers = runtime, drivers
	case Processes:
		processes, err := process.New(process.Config{
			Root: selected.Dir, Hidden: selected.Hidden, Unconfined: selected.Unconfined, Images: selected.Images,
			HostIP: node.MachineAddress(),
		})
		if err != nil {
			return nil, err
		}
		agent.Runtime, agent.Server, n.confinement = processes, selected.Server, processes.Confinement()
		if n.confinement == process.ConfinedRoot {
			agent.Drivers = drivers
		}
	}
	agent.Config, agent.Name = p.RESTConfigAs(identity.Node(nodeName)), nodeName
	agent.ExternalCloud, agent.KeepTaints = cfg.ExternalCloud, true
	agent.LeaseDuration, agent.Log = leaseDuration(cfg.Node), cfg.Log
	var err error
	n.agent, err = node.NewAgent(agent)
	return n, err
}

// simulate adds the simulated nodes of groups, and those that clients create. It reports whether
// the control plane's own node is needed beside them, and returns the runtime of all.
func (n *ownNodes) simulate(cfg Config, selected Simulated, p *ControlPlane, drivers []string) (bool, node.Runtime,
	error) {
	runtime := simulated.New(simulated.Config{})
	var err error
	if n.stages, err = stages.New(stages.Config{
		Store: p.store, Registry: p.registry, Shared: p.shared, REST: p.controllerConfig(identity.Stages),
		Runtime: runtime, Stages: selected.Stages, Log: cfg.Log,
	}); err != nil {
		return false, nil, err
	}
	groups := selected.Groups
	if len(groups) == 0 && len(selected.Stages) > 0 {
		// Stages script only nodes of package simulatednodes.
		groups = []simulatednodes.Group{{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}}}
	}
	var renew func(ctx context.Context, node string, now time.Time) bool
	if r := p.newRenewals(cfg); r != nil {
		renew = r.renew
	}
	if n.simulated, err = simulatednodes.New(simulatednodes.Config{
		Store: p.store, Shared: p.shared, REST: p.controllerConfig(identity.SimulatedNodes), As: p.RESTConfigAs,
		Runtime: runtime,
		Groups:  groups, Stages: n.stages, Drivers: drivers,
		LeaseDuration: leaseDuration(selected), Renew: renew, ExternalCloud: cfg.ExternalCloud, Log: cfg.Log,
	}); err != nil {
		return false, nil, err
	}
	n.stages.SetNodes(n.simulated)
	return len(groups) == 0, runtime, nil
}

// leaseDuration returns the lease of a node as the packages of nodes have it: there, a negative
// number means none, and 0 the default.
func leaseDuration(n Node) time.Duration {
	if n.lease() == 0 {
		return -1
	}
	return n.lease()
}

// simulatesVolumes reports whether the control plane provisions volumes.
func simulatesVolumes(cfg Config) bool {
	return cfg.runsWorkloads() && cfg.Node != nil && cfg.selects(simulatedVolumesName)
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
		Store: p.store, Shared: p.shared, REST: p.RESTConfigAs(identity.Scheduler), Settings: cfg.Scheduler,
		Waits: p.waits, Log: cfg.Log,
		Serves: func(r schema.GroupVersionResource) bool { return p.registry.Current().Serves(r, "") },
	})
	if err != nil {
		return fmt.Errorf("create scheduler: %w", err)
	}
	parts.run(ctx, "scheduler", s.Run)
	return nil
}
