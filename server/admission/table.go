package admission

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/server/admission/always"
	"kelson.dev/server/admission/lifecycle"
	"kelson.dev/server/admission/podsecurity"
	"kelson.dev/server/admission/policy"
	"kelson.dev/server/admission/resourcequota"
	"kelson.dev/server/admission/webhook"
	"kelson.dev/server/builtin/plugins"
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
	// Controllers says that the control plane has its own.
	Controllers bool
	// Metrics is where a plugin registers what it counts; nil: nowhere.
	Metrics prometheus.Registerer
	// Config is the plugin's own configuration, YAML or JSON; nil: none.
	Config []byte

	webhookMetrics *webhook.Metrics // both kinds of webhooks count in one place
}

func (d Deps) webhooks() webhook.Config {
	return webhook.Config{Store: d.Store, Authorizer: d.Authorizer, Config: d.Config, Metrics: d.webhookMetrics}
}

func (d Deps) policies() policy.Config {
	return policy.Config{Store: d.Store, Registry: d.Registry, Authorizer: d.Authorizer}
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
	upstream("NamespaceAutoProvision", false),
	{Name: lifecycle.Name, On: true, New: func(d Deps) (admission.Interface, error) { return lifecycle.New(d.Store), nil }},
	upstream("NamespaceExists", false),
	upstream("LimitPodHardAntiAffinityTopology", false),
	upstream("LimitRanger", true),
	upstream("ServiceAccount", true),
	upstream("NodeRestriction", false),
	upstream("TaintNodesByCondition", true),
	upstream("AlwaysPullImages", false),
	upstream("ImagePolicyWebhook", false),
	{Name: podsecurity.Name, On: true, New: func(d Deps) (admission.Interface, error) { return podsecurity.New(d.Store, d.Config, d.Metrics) }},
	upstream("PodNodeSelector", false),
	upstream("Priority", true),
	upstream("DefaultTolerationSeconds", true),
	upstream("PodTolerationRestriction", false),
	upstream("EventRateLimit", false),
	upstream("ExtendedResourceToleration", false),
	upstream("DefaultStorageClass", true),
	upstream("StorageObjectInUseProtection", true),
	upstream("PodGroupProtection", true),
	upstream("OwnerReferencesPermissionEnforcement", false),
	upstream("PersistentVolumeClaimResize", true),
	upstream("RuntimeClass", true),
	upstream("CertificateApproval", true),
	upstream("CertificateSigning", true),
	upstream("ClusterTrustBundleAttest", true),
	upstream("CertificateSubjectRestriction", true),
	upstream("DefaultIngressClass", true),
	upstream("DenyServiceExternalIPs", false),
	upstream("PodTopologyLabels", true),
	upstream("NodeDeclaredFeatureValidator", true),
	upstream("PodResizeValidator", true),
	// What is configured through the API comes after what is compiled in; what counts usage comes last.
	{Name: "MutatingAdmissionPolicy", On: true, New: func(d Deps) (admission.Interface, error) { return policy.NewMutating(d.policies()), nil }},
	{Name: "MutatingAdmissionWebhook", On: true, New: func(d Deps) (admission.Interface, error) { return webhook.NewMutating(d.webhooks()) }},
	{Name: "ValidatingAdmissionPolicy", On: true, New: func(d Deps) (admission.Interface, error) { return policy.NewValidating(d.policies()), nil }},
	{Name: "ValidatingAdmissionWebhook", On: true, New: func(d Deps) (admission.Interface, error) { return webhook.NewValidating(d.webhooks()) }},
	{Name: resourcequota.Name, On: true, New: func(d Deps) (admission.Interface, error) {
		return resourcequota.New(resourcequota.Config{Store: d.Store, Registry: d.Registry, Controller: d.Controllers, Config: d.Config})
	}},
	{Name: "AlwaysDeny", New: func(Deps) (admission.Interface, error) { return always.Deny{}, nil }},
}

// upstream is the line of a plugin whose code is Kubernetes' own.
func upstream(name string, on bool) Plugin {
	return Plugin{Name: name, On: on, New: func(d Deps) (admission.Interface, error) {
		return plugins.New(name, plugins.Config{
			Store: d.Store, Registry: d.Registry, Transport: d.Transport, Authorizer: d.Authorizer, Config: d.Config,
		})
	}}
}
