package plugins

import (
	upstream "k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/admission"
	"kelson.dev/kubernetes/plugins/podsecurity"
	"kelson.dev/kubernetes/plugins/resourcequota"
)

// Table returns all of kube-apiserver's plugins, in the order in which they run.
func Table() admission.Table {
	generic := admission.Generic()
	return admission.Table{
		*generic.Find("AlwaysAdmit"),
		linked("NamespaceAutoProvision", false),
		*generic.Find("NamespaceLifecycle"),
		linked("NamespaceExists", false),
		linked("LimitPodHardAntiAffinityTopology", false),
		linked("LimitRanger", true),
		linked("ServiceAccount", true),
		linked("NodeRestriction", false),
		linked("TaintNodesByCondition", true),
		linked("AlwaysPullImages", false),
		linked("ImagePolicyWebhook", false),
		{Name: podsecurity.Name, On: true, New: func(d admission.Deps) (upstream.Interface, error) {
			return podsecurity.New(d.Store, d.Config, d.Metrics)
		}},
		linked("PodNodeSelector", false),
		linked("Priority", true),
		linked("DefaultTolerationSeconds", true),
		linked("PodTolerationRestriction", false),
		linked("EventRateLimit", false),
		linked("ExtendedResourceToleration", false),
		linked("DefaultStorageClass", true),
		linked("StorageObjectInUseProtection", true),
		linked("PodGroupProtection", true),
		linked("OwnerReferencesPermissionEnforcement", false),
		linked("PersistentVolumeClaimResize", true),
		linked("RuntimeClass", true),
		linked("CertificateApproval", true),
		linked("CertificateSigning", true),
		linked("ClusterTrustBundleAttest", true),
		linked("CertificateSubjectRestriction", true),
		linked("DefaultIngressClass", true),
		linked("DenyServiceExternalIPs", false),
		linked("PodTopologyLabels", true),
		linked("NodeDeclaredFeatureValidator", true),
		linked("PodResizeValidator", true),
		// Plugins that clients configure through the API follow those that are compiled in.
		// ResourceQuota follows them, because it counts what the final object requests.
		*generic.Find("MutatingAdmissionPolicy"),
		*generic.Find("MutatingAdmissionWebhook"),
		*generic.Find("ValidatingAdmissionPolicy"),
		*generic.Find("ValidatingAdmissionWebhook"),
		{Name: resourcequota.Name, On: true, New: func(d admission.Deps) (upstream.Interface, error) {
			return resourcequota.New(resourcequota.Config{Store: d.Store, Registry: d.Registry,
				Controller: d.Controllers, Config: d.Config})
		}},
		*generic.Find("AlwaysDeny"),
	}
}

// linked returns the row of a plugin that is Kubernetes' own code.
func linked(name string, on bool) admission.Plugin {
	return admission.Plugin{Name: name, On: on, New: func(d admission.Deps) (upstream.Interface, error) {
		return New(name, Config{
			Store: d.Store, Registry: d.Registry, Transport: d.Transport, Authorizer: d.Authorizer, Config: d.Config,
		})
	}}
}
