package serve

import (
	"errors"
	"fmt"
	"regexp"

	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node/stage"
)

// The values of --node.
const (
	nodeNone       = "none"
	nodeSimulated  = "simulated"
	nodeProcess    = "process"
	nodeContainers = "containers" // starts kelson-node on this machine
)

// DefaultNode is the default of --node.
const DefaultNode = nodeSimulated

// parseNode returns the node with a name, for a control plane that runs pods itself.
func parseNode(name string) (controlplane.Node, error) {
	switch name {
	case nodeNone:
		return nil, nil
	case nodeSimulated:
		return controlplane.Simulated{}, nil
	case nodeProcess:
		return controlplane.Processes{}, nil
	}
	return nil, fmt.Errorf("node %q: must be %s, %s or %s", name, nodeNone, nodeSimulated, nodeProcess)
}

const nodesUsage = "simulated nodes instead of the single one: a number, with settings after commas (3,zone=a/b,cpu=4,memory=16Gi,label=KEY=VALUE,taint=KEY=VALUE:EFFECT,name=PREFIX,region=R), or a file with Nodes; may be repeated"

// counted matches values of --nodes that are not files.
var counted = regexp.MustCompile(`^[-+]?[0-9]*(,|$)`)

// selectNode returns what runs pods: --node, --nodes and --stages.
func (o *Options) selectNode() (controlplane.Node, error) {
	groups, err := o.simulatedNodes()
	if err != nil {
		return nil, err
	}
	stages, err := o.loadStages()
	if err != nil {
		return nil, err
	}
	node, err := parseNode(o.Node)
	switch selected := node.(type) {
	case controlplane.Simulated:
		selected.Groups, selected.Stages, selected.Lease = groups, stages, controlplane.NodeLease
		return selected, nil
	case controlplane.Processes:
		selected.Lease = controlplane.NodeLease
		return selected, nil
	}
	return node, err
}

// simulatedNodes returns the nodes of --nodes.
func (o *Options) simulatedNodes() ([]simulatednodes.Group, error) {
	if len(o.nodes) == 0 {
		return nil, nil
	}
	if o.Node != nodeSimulated {
		return nil, errors.New("--nodes needs --node=simulated")
	}
	var all []simulatednodes.Group
	for _, value := range o.nodes {
		var groups []simulatednodes.Group
		var err error
		if counted.MatchString(value) {
			groups = make([]simulatednodes.Group, 1)
			groups[0], err = simulatednodes.ParseGroup(value)
		} else {
			groups, err = simulatednodes.Load(value)
		}
		if err != nil {
			return nil, fmt.Errorf("--nodes %w", err)
		}
		all = append(all, groups...)
	}
	if _, err := simulatednodes.Nodes(all...); err != nil {
		return nil, fmt.Errorf("--nodes: %w", err)
	}
	return all, nil
}

// loadStages returns the Stages of --stages.
func (o *Options) loadStages() ([]*stage.Stage, error) {
	if len(o.stages) == 0 {
		return nil, nil
	}
	if o.Node != nodeSimulated {
		return nil, errors.New("--stages needs --node=simulated")
	}
	all, err := stage.Load(o.stages...)
	if err != nil {
		return nil, fmt.Errorf("--stages %w", err)
	}
	return all, nil
}
