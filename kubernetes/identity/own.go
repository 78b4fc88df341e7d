package identity

import rbacv1 "k8s.io/api/rbac/v1"

// The service accounts of the components that Kubernetes does not have, in kube-system.
const (
	// SimulatedVolumes is the CSI driver whose volumes are only objects.
	SimulatedVolumes = "kelson-simulated-volumes"
	// SimulatedNodes creates the Nodes of the control plane's groups of simulated nodes.
	SimulatedNodes = "kelson-simulated-nodes"
	// Stages carries out KWOK's Stages.
	Stages = "kwok-controller"
	// ServingApprover approves the serving certificates of kubelets.
	ServingApprover = "kelson-serving-approver"
)

// Role is the cluster role of a component that Kubernetes does not have. Its name is
// "kelson:controller:" and the service account, and a binding of the same name binds it.
type Role struct {
	Account string
	Rules   []rbacv1.PolicyRule
}

// Name returns the name of the role and of its binding.
func (r *Role) Name() string { return "kelson:controller:" + r.Account }

func rule(groups, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: verbs}
}

var (
	core    = []string{""}
	storage = []string{"storage.k8s.io"}
	events  = rule([]string{"", "events.k8s.io"}, []string{"events"}, "create", "patch", "update")
)

// Own returns the roles of the components that Kubernetes does not have, by service account.
func Own() []Role {
	return []Role{
		{SimulatedVolumes, []rbacv1.PolicyRule{
			rule(storage, []string{"csidrivers", "storageclasses"}, "create"),
			rule(storage, []string{"volumeattachments"}, "create", "delete"),
			rule(storage, []string{"volumeattachments/status"}, "update"),
			rule(core, []string{"persistentvolumes"}, "create", "update", "delete"),
			rule(core, []string{"persistentvolumeclaims/status"}, "update"),
			events,
		}},
		{SimulatedNodes, []rbacv1.PolicyRule{rule(core, []string{"nodes"}, "create")}},
		// Stages name any kind, subresource and user.
		{Stages, []rbacv1.PolicyRule{rule([]string{"*"}, []string{"*"}, "*")}},
		{ServingApprover, []rbacv1.PolicyRule{
			rule([]string{"certificates.k8s.io"}, []string{"certificatesigningrequests/approval"}, "update"),
			{
				APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, Verbs: []string{"approve"},
				ResourceNames: []string{"kubernetes.io/kubelet-serving"},
			},
		}},
	}
}
