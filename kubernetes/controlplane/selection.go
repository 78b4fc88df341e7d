package controlplane

import (
	"net"
	"net/netip"
	"slices"

	"kelson.dev/kubernetes/controllers/workloads"
)

// Names of this control plane's own components in --controllers that kube-controller-manager does
// not have: the scheduler, the simulated volumes, and the pool of load balancers, which a
// cloud-controller-manager calls service-lb-controller.
const (
	schedulerName        = "kube-scheduler"
	simulatedVolumesName = "simulated-volumes"
	loadBalancersName    = "service-lb-controller"
)

// The controllers of kube-controller-manager that each of our controllers replaces.
var (
	defaultsNames   = []string{"serviceaccount-controller", "root-ca-certificate-publisher-controller"}
	protectionNames = []string{"persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller",
		"volumeattributesclass-protection-controller"}
	tokenNames = []string{"serviceaccount-token-controller", "token-cleaner-controller",
		"legacy-serviceaccount-token-cleaner-controller"}
	certificateNames = []string{
		"certificatesigningrequest-signing-controller", "certificatesigningrequest-approving-controller",
		"certificatesigningrequest-cleaner-controller", "podcertificaterequest-cleaner-controller",
	}
)

// ControllerNames returns the names that Config.Controllers can select, sorted.
func ControllerNames() []string {
	names := slices.Concat(workloads.Names, defaultsNames, protectionNames, tokenNames, certificateNames, []string{
		"garbage-collector-controller", "ttl-after-finished-controller", "clusterrole-aggregation-controller",
		"disruption-controller",
		"resourcequota-controller", "storage-version-migrator-controller",
		"validatingadmissionpolicy-status-controller", "namespace-controller",
		"service-cidr-controller", schedulerName, simulatedVolumesName, loadBalancersName,
	})
	slices.Sort(names)
	return names
}

// Controllers are the controllers of kube-controller-manager that a control plane runs:
// [NoControllers], [ObjectControllers] or [AllControllers].
type Controllers interface {
	// selection returns the selected controllers, and false if none run.
	selection() (workloads.Selection, bool)
}

// NoControllers runs none: dependents of deleted owners stay, namespaces stay Terminating and have
// no default service account, finished Jobs stay, and cluster roles are not aggregated.
type NoControllers struct{}

// ObjectControllers runs the controllers that clients of any kind of object rely on, such as
// garbage collection and the deletion of namespaces, and none of workloads.
type ObjectControllers struct {
	// Selection selects controllers by name, as kube-controller-manager's --controllers does; see
	// ParseControllers. None means all. It selects the scheduler too.
	Selection workloads.Selection
	// LoadBalancers is the pool of addresses for Services of type LoadBalancer: at most one prefix
	// for each IP family. An empty list means that another program implements these Services.
	LoadBalancers []netip.Prefix
}

// AllControllers runs the ObjectControllers and those of Deployments, StatefulSets, DaemonSets,
// Jobs, EndpointSlices and other workload kinds; see package workloads. The latter start when the
// first such object exists.
type AllControllers struct {
	// Selection and LoadBalancers are as in ObjectControllers.
	Selection     workloads.Selection
	LoadBalancers []netip.Prefix
	// PodRanges are the ranges of pod addresses, at most one per IP family, of which each node gets
	// a part as spec.podCIDRs. If empty, nodes get none.
	PodRanges []*net.IPNet
}

func (NoControllers) selection() (workloads.Selection, bool)       { return nil, false }
func (c ObjectControllers) selection() (workloads.Selection, bool) { return c.Selection, true }
func (c AllControllers) selection() (workloads.Selection, bool)    { return c.Selection, true }

// controls reports whether any controllers run.
func (c *Config) controls() bool {
	if c.Controllers == nil {
		return true
	}
	_, ok := c.Controllers.selection()
	return ok
}

// selects reports whether the selection has a controller, or the scheduler, which also runs without
// controllers.
func (c *Config) selects(name string) bool {
	if c.Controllers == nil {
		return true
	}
	selection, _ := c.Controllers.selection()
	return selection.Runs(name)
}

// runsWorkloads reports whether the controllers of workloads run.
func (c *Config) runsWorkloads() bool {
	_, ok := c.Controllers.(AllControllers)
	return ok
}

// loadBalancers returns the pool of addresses for Services of type LoadBalancer.
func (c *Config) loadBalancers() []netip.Prefix {
	switch controllers := c.Controllers.(type) {
	case ObjectControllers:
		return controllers.LoadBalancers
	case AllControllers:
		return controllers.LoadBalancers
	}
	return nil
}

// ParseControllers checks a selection of controllers. Controllers that run as one must be selected
// together.
func ParseControllers(names []string) (workloads.Selection, error) {
	s := workloads.Selection(names)
	return s, s.Check(ControllerNames(), [][]string{defaultsNames, protectionNames, tokenNames, certificateNames})
}
