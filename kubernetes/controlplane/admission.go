package controlplane

import (
	"github.com/prometheus/client_golang/prometheus"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/admission"
	"kelson.dev/apiserver/resource"
	"kelson.dev/kubernetes/plugins"
)

// Admission says which plugins look at what is written. The zero value has those that kube-apiserver has by default.
type Admission struct {
	// Enable and Disable name plugins to run beside those, and of those the ones not to run.
	Enable, Disable []string
	// Plugins is the configuration of each plugin that has one, by name.
	Plugins map[string][]byte
}

// newAdmission makes the chain of plugins, in Kubernetes' order. It ends with the control plane.
func (p *ControlPlane) newAdmission(cfg Config, may authorizer.Authorizer, metrics prometheus.Registerer) (upstream.Interface, error) {
	chain, err := admission.New(admission.Config(cfg.Admission), plugins.Table(), admission.Deps{
		Store:       p.store,
		Registry:    p.registry,
		Objects:     func() resource.Objects { return p.verbs },
		Transport:   p.Transport(),
		Authorizer:  may,
		Controllers: !cfg.NoControllers,
		Metrics:     metrics,
	})
	if err != nil {
		return nil, err
	}
	p.plugins = chain
	return upstream.WithAudit(chain), nil
}
