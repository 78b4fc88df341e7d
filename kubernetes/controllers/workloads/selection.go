package workloads

import (
	"fmt"
	"slices"
	"strings"
)

// Selection is a list of controllers in the form of kube-controller-manager's --controllers: NAME
// selects a controller, -NAME excludes it, and * selects all that are not named; -* selects none of
// them. The first match of a name counts. An empty list selects all.
type Selection []string

// Runs reports whether the list selects a controller.
func (s Selection) Runs(name string) bool {
	for _, each := range s {
		switch each {
		case name:
			return true
		case "-" + name:
			return false
		}
	}
	return len(s) == 0 || slices.Contains(s, "*")
}

// Check returns an error if the list names a controller that is not in known, or selects only some
// of the controllers in together, which run as one.
func (s Selection) Check(known []string, together [][]string) error {
	for _, each := range s {
		if name := strings.TrimPrefix(each, "-"); name != "*" && !slices.Contains(known, name) {
			return fmt.Errorf("%q is not in the list of known controllers: %s", name, strings.Join(known, ", "))
		}
	}
	for _, group := range together {
		for _, name := range group[1:] {
			if s.Runs(name) != s.Runs(group[0]) {
				return fmt.Errorf("%s run together: select all or none", strings.Join(group, ", "))
			}
		}
	}
	return nil
}

// Names are the names of this package's controllers.
var Names = []string{
	"cronjob-controller", "daemonset-controller", "deployment-controller", deviceTaintEvictionName,
	"endpoints-controller", "endpointslice-controller",
	"endpointslice-mirroring-controller", "ephemeral-volume-controller", "horizontal-pod-autoscaler-controller",
	"job-controller", "node-ipam-controller", "node-lifecycle-controller",
	"persistentvolume-binder-controller", "pod-garbage-collector-controller", "podgroup-protection-controller",
	"replicaset-controller",
	"replicationcontroller-controller", "resourceclaim-controller", "resourcepoolstatusrequest-controller",
	"statefulset-controller", "taint-eviction-controller",
}
