package apiserver

import (
	"github.com/prometheus/client_golang/prometheus"
	upstream "k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/admission"
	"kelson.dev/apiserver/admission/policy"
	"kelson.dev/apiserver/admission/webhook"
	"kelson.dev/apiserver/services"
)

// admission returns the server's own rules, followed by the webhooks and policies of the cluster,
// in Kubernetes' order.
func (s *Server) admission(p *plan, auth Auth, metrics prometheus.Registerer) (upstream.Interface, error) {
	rules, err := newRules(s, p.rules, auth.Namespace)
	if err != nil || auth.Cluster == nil {
		return rules, err
	}
	policies := policy.Config{Store: auth.Cluster, Registry: s.registry, Authorizer: auth.Authorizer}
	// The server may run in a pod: Services have their DNS names there.
	webhooks := webhook.Config{
		Store: auth.Cluster, Services: services.New(services.Config{Store: auth.Cluster, DNS: true}), Authorizer: auth.Authorizer,
		Metrics: webhook.NewMetrics(metrics),
	}
	row := func(name string, build func() (upstream.Interface, error)) admission.Plugin {
		return admission.Plugin{Name: name, On: true, New: func(admission.Deps) (upstream.Interface, error) { return build() }}
	}
	chain, err := admission.New(admission.Config{}, admission.Table{
		row("Rules", func() (upstream.Interface, error) { return rules, nil }),
		row("MutatingAdmissionPolicy", func() (upstream.Interface, error) { return policy.NewMutating(policies), nil }),
		row("MutatingAdmissionWebhook", func() (upstream.Interface, error) { return webhook.NewMutating(webhooks) }),
		row("ValidatingAdmissionPolicy", func() (upstream.Interface, error) { return policy.NewValidating(policies), nil }),
		row("ValidatingAdmissionWebhook", func() (upstream.Interface, error) { return webhook.NewValidating(webhooks) }),
	}, admission.Deps{})
	if err != nil {
		return nil, err
	}
	s.ended = append(s.ended, chain.Stop)
	return upstream.WithAudit(chain), nil
}
