package controlplane

import (
	"github.com/prometheus/client_golang/prometheus"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/admission"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/services"
	"kelson.dev/kubernetes/plugins"
)

// Admission selects the admission plugins. The zero value enables those that kube-apiserver enables
// by default.
type Admission struct {
	// Enable names plugins to run in addition to the default plugins. Disable names default plugins
	// that do not run.
	Enable, Disable []string
	// Plugins holds the configuration of plugins that have one, by plugin name.
	Plugins map[string][]byte
}

// newAdmission builds the chain of plugins, in Kubernetes' order. Stop ends it.
func (p *ControlPlane) newAdmission(cfg Config, authorizer authorizer.Authorizer, metrics prometheus.Registerer,
	resolver *services.Resolver) (upstream.Interface, error) {
	chain, err := admission.New(admission.Config(cfg.Admission), plugins.Table(), admission.Deps{
		Store:        p.store,
		Registry:     p.registry,
		Services:     resolver,
		Webhooks:     cfg.Webhooks,
		DialWebhooks: cfg.DialWebhooks,
		Objects:      func() resource.Objects { return p.verbs },
		Transport:    p.serverTransport(),
		Authorizer:   authorizer,
		Controllers:  cfg.controls(),
		Metrics:      metrics,
		Manifests:    plugins.Manifests(),
	})
	if err != nil {
		return nil, err
	}
	p.plugins = chain
	return upstream.WithAudit(chain), nil
}
