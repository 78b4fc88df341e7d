package controlplane

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/process"
	"kelson.dev/kubernetes/node/simulated"
)

// nodeName is the name of the one node that a control plane may have of its own.
const nodeName = "kelson"

// ownNode is the control plane's own node: an agent and a scheduler, or nothing.
type ownNode struct {
	agent     *node.Agent
	scheduler *node.Scheduler

	confinement process.Confinement // "": nothing runs on this machine
}

// PodConfinement says what separates the pods of NodeProcess from this process; "" with every other Node.
func (p *ControlPlane) PodConfinement() process.Confinement { return p.node.confinement }

// newNode makes what cfg.Node asks for. The parts are clients of p, which need not be complete yet.
func newNode(cfg Config, p *ControlPlane) (*ownNode, error) {
	var containers node.Runtime
	var err error
	n := &ownNode{}
	switch cfg.Node {
	case NodeNone, "":
		return n, nil
	case NodeSimulated:
		containers = simulated.New(simulated.Config{})
	case NodeProcess:
		processes, err := process.New(process.Config{Root: cfg.NodeDir, Hidden: cfg.NodeHidden, Unconfined: cfg.NodeUnconfined})
		if err != nil {
			return nil, err
		}
		containers, n.confinement = processes, processes.Confinement()
	default:
		return nil, fmt.Errorf("node %q is not known", cfg.Node)
	}
	if n.agent, err = node.NewAgent(node.AgentConfig{Config: p.RESTConfig(), Name: nodeName, Runtime: containers, LeaseDuration: cfg.NodeLease, Log: cfg.Log}); err != nil {
		return nil, err
	}
	if n.scheduler, err = node.NewScheduler(node.SchedulerConfig{Config: p.RESTConfig(), Log: cfg.Log}); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *ownNode) start(ctx context.Context, parts *parts) {
	if n.agent != nil {
		parts.run(ctx, "node agent", n.agent.Run)
		parts.run(ctx, "scheduler", n.scheduler.Run)
	}
}

// logs reads a container's log from the node that runs it.
func (n *ownNode) logs(ctx context.Context, pod *corev1.Pod, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
	if n.agent == nil || pod.Spec.NodeName != n.agent.Name() {
		return nil, apierrors.NewInternalError(fmt.Errorf("node %q does not answer: no address is known of it", pod.Spec.NodeName))
	}
	return n.agent.Logs(ctx, pod, opts)
}

// named finds the node by its name, for what leads into containers.
func (n *ownNode) named(name string) (builtin.Node, bool) {
	if n.agent == nil || name != n.agent.Name() {
		return nil, false
	}
	return n.agent, true
}
