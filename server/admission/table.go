package admission

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/server/admission/always"
	"kelson.dev/server/admission/lifecycle"
	"kelson.dev/server/resource"
	"kelson.dev/server/store"
)

// Deps is what plugins are made of.
type Deps struct {
	Store    *store.Store
	Registry *resource.Registry
	// Objects gives the verbs on stored objects. They exist only after the plugins: ask for them when a request comes.
	Objects func() resource.Objects
	// Transport hands requests to the control plane in process, as an administrator. It works only after the start.
	Transport  http.RoundTripper
	Authorizer authorizer.Authorizer
	// Metrics is where a plugin registers what it counts; nil: nowhere.
	Metrics prometheus.Registerer
	// Config is the plugin's own configuration, YAML or JSON; nil: none.
	Config []byte
}

// Plugin is a line of the table.
type Plugin struct {
	// Name is the plugin's name in flags and in configuration.
	Name string
	// On says that the plugin runs unless it is disabled.
	On bool
	// New makes the plugin; nil: it is known by name only.
	New func(Deps) (admission.Interface, error)
}

// Plugins are all plugins of kube-apiserver, in the order in which they run.
var Plugins = []Plugin{
	{Name: "AlwaysAdmit", New: func(Deps) (admission.Interface, error) { return always.Admit{}, nil }},
	{Name: "NamespaceAutoProvision"},
	{Name: lifecycle.Name, On: true, New: func(d Deps) (admission.Interface, error) { return lifecycle.New(d.Store), nil }},
	{Name: "NamespaceExists"},
	{Name: "LimitPodHardAntiAffinityTopology"},
	{Name: "LimitRanger", On: true},
	{Name: "ServiceAccount", On: true},
	{Name: "NodeRestriction"},
	{Name: "TaintNodesByCondition", On: true},
	{Name: "AlwaysPullImages"},
	{Name: "ImagePolicyWebhook"},
	{Name: "PodSecurity", On: true},
	{Name: "PodNodeSelector"},
	{Name: "Priority", On: true},
	{Name: "DefaultTolerationSeconds", On: true},
	{Name: "PodTolerationRestriction"},
	{Name: "EventRateLimit"},
	{Name: "ExtendedResourceToleration"},
	{Name: "DefaultStorageClass", On: true},
	{Name: "StorageObjectInUseProtection", On: true},
	{Name: "PodGroupProtection", On: true},
	{Name: "OwnerReferencesPermissionEnforcement"},
	{Name: "PersistentVolumeClaimResize", On: true},
	{Name: "RuntimeClass", On: true},
	{Name: "CertificateApproval", On: true},
	{Name: "CertificateSigning", On: true},
	{Name: "ClusterTrustBundleAttest", On: true},
	{Name: "CertificateSubjectRestriction", On: true},
	{Name: "DefaultIngressClass", On: true},
	{Name: "DenyServiceExternalIPs"},
	{Name: "PodTopologyLabels", On: true},
	{Name: "NodeDeclaredFeatureValidator", On: true},
	{Name: "PodResizeValidator", On: true},
	// What is configured through the API comes after what is compiled in; what counts usage comes last.
	{Name: "MutatingAdmissionPolicy", On: true},
	{Name: "MutatingAdmissionWebhook", On: true},
	{Name: "ValidatingAdmissionPolicy", On: true},
	{Name: "ValidatingAdmissionWebhook", On: true},
	{Name: "ResourceQuota", On: true},
	{Name: "AlwaysDeny", New: func(Deps) (admission.Interface, error) { return always.Deny{}, nil }},
}
