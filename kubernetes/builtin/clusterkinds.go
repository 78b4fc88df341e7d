package builtin

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/apis/coordination"
	"k8s.io/kubernetes/pkg/apis/discovery"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/apis/node"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/kubernetes/pkg/apis/rbac"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/pkg/apis/storage"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	csr "k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/certificates/clustertrustbundle"
	"k8s.io/kubernetes/pkg/registry/certificates/podcertificaterequest"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/coordination/leasecandidate"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"

	"kelson.dev/apiserver/resource"
)

// notUnsafe is the behavior of kinds that kube-apiserver wraps for authorization: DELETE cannot
// skip unreadable objects.
var notUnsafe = resource.Behavior{Delete: resource.DeleteBehavior{NotUnsafe: true}}

// clusterKinds returns the kinds that describe the cluster rather than its workloads.
func clusterKinds() []entry {
	// These strategies do not check the permission to read the parameters of policies;
	// kinds.policies replaces them.
	policyStrategy := validatingadmissionpolicy.NewStrategy(nil, nil)
	return []entry{
		{hub: &admissionregistration.MutatingAdmissionPolicy{}, plural: "mutatingadmissionpolicies",
			versions: []string{"v1", "v1beta1", "v1alpha1"}, categories: extensions,
			strategy: mutatingadmissionpolicy.NewStrategy(nil, nil)},
		{hub: &admissionregistration.MutatingAdmissionPolicyBinding{}, plural: "mutatingadmissionpolicybindings",
			versions: []string{"v1", "v1beta1", "v1alpha1"}, categories: extensions,
			strategy: mutatingadmissionpolicybinding.NewStrategy(nil, nil, nil)},
		{hub: &admissionregistration.MutatingWebhookConfiguration{}, plural: "mutatingwebhookconfigurations",
			versions: v1, categories: extensions,
			strategy: mutatingwebhookconfiguration.Strategy},
		{hub: &admissionregistration.ValidatingAdmissionPolicy{}, plural: "validatingadmissionpolicies", versions: v1,
			categories: extensions,
			strategy:   policyStrategy, status: validatingadmissionpolicy.NewStatusStrategy(policyStrategy)},
		{hub: &admissionregistration.ValidatingAdmissionPolicyBinding{}, plural: "validatingadmissionpolicybindings",
			versions: v1, categories: extensions,
			strategy: validatingadmissionpolicybinding.NewStrategy(nil, nil, nil)},
		{hub: &admissionregistration.ValidatingWebhookConfiguration{}, plural: "validatingwebhookconfigurations",
			versions: v1, categories: extensions,
			strategy: validatingwebhookconfiguration.Strategy},

		{hub: &certificates.CertificateSigningRequest{}, plural: "certificatesigningrequests", versions: v1,
			short:    []string{"csr"},
			strategy: csr.Strategy, status: csr.StatusStrategy, fields: selectable(csr.SelectableFields),
			subs: []resource.Subresource{{Name: "approval", NoTable: true,
				Update: &resource.UpdateView{Strategy: csr.ApprovalStrategy}}}},
		{hub: &certificates.ClusterTrustBundle{}, plural: "clustertrustbundles", versions: v1AndBeta,
			hashVersion: "v1beta1", strategy: clustertrustbundle.Strategy,
			fields: selectable(trustFields)},
		// This strategy does not check the permission to sign; kinds.signed replaces it.
		{hub: &certificates.PodCertificateRequest{}, plural: "podcertificaterequests", versions: v1AndBeta,
			hashVersion: "v1beta1", strategy: podCertificates,
			status: podcertificaterequest.NewStatusStrategy(podCertificates, nil, nil),
			fields: selectable(podCertificateFields)},

		{hub: &coordination.Lease{}, plural: "leases", versions: v1, strategy: lease.Strategy},
		{hub: &coordination.LeaseCandidate{}, plural: "leasecandidates", versions: []string{"v1beta1", "v1alpha2"},
			strategy: leasecandidate.Strategy,
			fields:   selectable(leasecandidate.ToSelectableFields)},

		{hub: &discovery.EndpointSlice{}, plural: "endpointslices", versions: v1, strategy: endpointslice.Strategy},

		{hub: &flowcontrol.FlowSchema{}, plural: "flowschemas", versions: v1,
			strategy: flowschema.Strategy, status: flowschema.StatusStrategy},
		{hub: &flowcontrol.PriorityLevelConfiguration{}, plural: "prioritylevelconfigurations", versions: v1,
			strategy: prioritylevelconfiguration.Strategy, status: prioritylevelconfiguration.StatusStrategy},

		{hub: &networking.Ingress{}, plural: "ingresses", versions: v1, short: []string{"ing"}, storagePath: "ingress",
			strategy: ingress.Strategy, status: ingress.StatusStrategy},
		{hub: &networking.IngressClass{}, plural: "ingressclasses", versions: v1, strategy: ingressclass.Strategy},
		{hub: &networking.IPAddress{}, plural: "ipaddresses", versions: v1, short: []string{"ip"},
			strategy: ipaddress.Strategy},
		{hub: &networking.NetworkPolicy{}, plural: "networkpolicies", versions: v1, short: []string{"netpol"},
			strategy: networkpolicy.Strategy},
		{hub: &networking.ServiceCIDR{}, plural: "servicecidrs", versions: v1,
			strategy: servicecidr.Strategy, status: servicecidr.StatusStrategy},

		{hub: &node.RuntimeClass{}, plural: "runtimeclasses", versions: v1, strategy: runtimeclass.Strategy},

		{hub: &policy.PodDisruptionBudget{}, plural: "poddisruptionbudgets", versions: v1, short: []string{"pdb"},
			strategy: poddisruptionbudget.Strategy, status: poddisruptionbudget.StatusStrategy},

		{hub: &rbac.ClusterRole{}, plural: "clusterroles", versions: v1, behavior: notUnsafe,
			strategy: clusterrole.Strategy},
		{hub: &rbac.ClusterRoleBinding{}, plural: "clusterrolebindings", versions: v1, behavior: notUnsafe,
			strategy: clusterrolebinding.Strategy},
		{hub: &rbac.Role{}, plural: "roles", versions: v1, behavior: notUnsafe, strategy: role.Strategy},
		{hub: &rbac.RoleBinding{}, plural: "rolebindings", versions: v1, behavior: notUnsafe,
			strategy: rolebinding.Strategy},

		{hub: &scheduling.PriorityClass{}, plural: "priorityclasses", versions: v1, short: []string{"pc"},
			strategy: priorityclass.Strategy,
			hooks:    &resource.Hooks{Deleting: keepSystemClass}},

		{hub: &storage.CSIDriver{}, plural: "csidrivers", versions: v1, returned: true, strategy: csidriver.Strategy},
		{hub: &storage.CSINode{}, plural: "csinodes", versions: v1, returned: true,
			strategy: csinode.Strategy, status: csinode.StatusStrategy},
		{hub: &storage.CSIStorageCapacity{}, plural: "csistoragecapacities", versions: v1,
			strategy: csistoragecapacity.Strategy},
		{hub: &storage.StorageClass{}, plural: "storageclasses", versions: v1, short: []string{"sc"}, returned: true,
			strategy: storageclass.Strategy},
		{hub: &storage.VolumeAttachment{}, plural: "volumeattachments", versions: v1, returned: true,
			strategy: volumeattachment.Strategy, status: volumeattachment.StatusStrategy},
		{hub: &storage.VolumeAttributesClass{}, plural: "volumeattributesclasses", versions: v1, short: []string{"vac"},
			returned: true,
			strategy: volumeattributesclass.Strategy},
	}
}

// keepSystemClass refuses a DELETE of a priority class that kube-apiserver creates, even if it does
// not exist. A DELETE of a collection removes them, as in kube-apiserver.
func keepSystemClass(_ context.Context, name string, _ *metav1.DeleteOptions) error {
	if !slices.Contains(schedulingv1.SystemPriorityClassNames(), name) {
		return nil
	}
	return apierrors.NewForbidden(scheduling.Resource("priorityclasses"), name,
		errors.New("this is a system priority class and cannot be deleted"))
}

// extensions is the category of kinds that extend the API.
var extensions = []string{"api-extensions"}

// trustFields returns the selectable fields of ClusterTrustBundles.
func trustFields(b *certificates.ClusterTrustBundle) fields.Set {
	return generic.AddObjectMetaFieldsSet(fields.Set{"spec.signerName": b.Spec.SignerName}, &b.ObjectMeta, false)
}
