package admission

import (
	"context"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/admission/always"
	"kelson.dev/apiserver/admission/lifecycle"
	"kelson.dev/apiserver/admission/policy"
	"kelson.dev/apiserver/admission/webhook"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
)

// Deps holds the dependencies of plugins.
type Deps struct {
	Store    *store.Store
	Registry *resource.Registry
	// Services resolves the Services that webhooks name; nil resolves them to their endpoints in
	// Store.
	Services *services.Resolver
	// Webhooks, if not nil, carries the requests to webhooks; see [webhook.Config].
	Webhooks http.RoundTripper
	// DialWebhooks, if not nil, connects to webhooks; see [webhook.Config].
	DialWebhooks func(ctx context.Context, network, address string) (net.Conn, error)
	// Objects returns the verbs on stored objects. The verbs are built after the plugins, so call
	// it while serving a request, not in a constructor.
	Objects func() resource.Objects
	// Transport sends requests to the control plane in process, as an administrator. It works only
	// after the control plane has started.
	Transport  http.RoundTripper
	Authorizer authorizer.Authorizer
	// Controllers reports whether the control plane runs its own controllers.
	Controllers bool
	// Metrics is the registry for the metrics of plugins; nil means that they are not registered.
	Metrics prometheus.Registerer
	// Manifests reads the folders with webhooks and policies that the plugins' own configurations
	// name. If it is nil, the configurations must not name folders.
	Manifests *initializer.ManifestLoaders
	// Config is the plugin's own configuration, YAML or JSON; nil means none.
	Config []byte

	webhookMetrics *webhook.Metrics // shared by mutating and validating webhooks
}

func (d Deps) webhooks() webhook.Config {
	resolver := d.Services
	if resolver == nil {
		resolver = services.New(services.Config{Store: d.Store})
	}
	return webhook.Config{Store: d.Store, Services: resolver, Authorizer: d.Authorizer, Config: d.Config,
		Manifests: d.Manifests, Transport: d.Webhooks, Dial: d.DialWebhooks, Metrics: d.webhookMetrics}
}

func (d Deps) policies() policy.Config {
	return policy.Config{Store: d.Store, Registry: d.Registry, Authorizer: d.Authorizer, Config: d.Config,
		Manifests: d.Manifests}
}

// Plugin is one row of a Table.
type Plugin struct {
	// Name is the plugin's name in flags and in configuration.
	Name string
	// On means that the plugin runs unless it is disabled.
	On bool
	// New builds the plugin. nil means that Kubernetes has a plugin of this name and this server
	// does not.
	New func(Deps) (admission.Interface, error)
}

// Table lists plugins in the order in which they run.
type Table []Plugin

// Generic returns the plugins that depend on no built-in kind, in Kubernetes' order: AlwaysAdmit,
// NamespaceLifecycle, the policies and webhooks that clients configure through the API, and
// AlwaysDeny. A server with more plugins builds its own table and takes these rows from here; see
// [Table.Find].
func Generic() Table {
	return Table{
		{Name: "AlwaysAdmit", New: func(Deps) (admission.Interface, error) { return always.Admit{}, nil }},
		{Name: lifecycle.Name, On: true, New: func(d Deps) (admission.Interface, error) {
			return lifecycle.New(d.Store), nil
		}},
		{Name: "MutatingAdmissionPolicy", On: true, New: func(d Deps) (admission.Interface, error) {
			return policy.NewMutating(d.policies())
		}},
		{Name: "MutatingAdmissionWebhook", On: true, New: func(d Deps) (admission.Interface, error) {
			return webhook.NewMutating(d.webhooks())
		}},
		{Name: "ValidatingAdmissionPolicy", On: true, New: func(d Deps) (admission.Interface, error) {
			return policy.NewValidating(d.policies())
		}},
		{Name: "ValidatingAdmissionWebhook", On: true, New: func(d Deps) (admission.Interface, error) {
			return webhook.NewValidating(d.webhooks())
		}},
		{Name: "AlwaysDeny", New: func(Deps) (admission.Interface, error) { return always.Deny{}, nil }},
	}
}

// Find returns the row of the named plugin, or nil if there is none.
func (t Table) Find(name string) *Plugin {
	for i := range t {
		if t[i].Name == name {
			return &t[i]
		}
	}
	return nil
}

// Names returns the plugins that can be enabled, in the table's order: all of them, or only those
// that are on by default.
func (t Table) Names(onByDefault bool) []string {
	var names []string
	for _, row := range t {
		if row.New != nil && (row.On || !onByDefault) {
			names = append(names, row.Name)
		}
	}
	return names
}
