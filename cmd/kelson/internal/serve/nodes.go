package serve

import (
	"errors"
	"fmt"
	"regexp"

	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node/stage"
)

const nodesUsage = "simulated nodes instead of the single one: a number, with settings after commas (3,zone=a/b,cpu=4,memory=16Gi,label=KEY=VALUE,taint=KEY=VALUE:EFFECT,name=PREFIX,region=R), or a file with Nodes; may be repeated"

// counted matches values of --nodes that are not files.
var counted = regexp.MustCompile(`^[-+]?[0-9]*(,|$)`)

// simulatedNodes returns the nodes of --nodes.
func (o *Options) simulatedNodes() ([]simulatednodes.Group, error) {
	if len(o.nodes) == 0 {
		return nil, nil
	}
	if o.Node != string(controlplane.NodeSimulated) {
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
	if o.Node != string(controlplane.NodeSimulated) {
		return nil, errors.New("--stages needs --node=simulated")
	}
	all, err := stage.Load(o.stages...)
	if err != nil {
		return nil, fmt.Errorf("--stages %w", err)
	}
	return all, nil
}
