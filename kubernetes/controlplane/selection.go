package controlplane

import (
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

// ParseControllers checks a selection of controllers. Controllers that run as one must be selected
// together.
func ParseControllers(names []string) (workloads.Selection, error) {
	s := workloads.Selection(names)
	return s, s.Check(ControllerNames(), [][]string{defaultsNames, protectionNames, tokenNames, certificateNames})
}
