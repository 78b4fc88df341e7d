package apiserver

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"

	"kelson.dev/apiserver/admission"
	"kelson.dev/apiserver/admission/policy"
	"kelson.dev/apiserver/admission/webhook"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
)

// admission returns the server's own rules, followed by the webhooks and policies of the cluster,
// in Kubernetes' order.
func (s *Server) admission(p *plan, auth Auth, metrics prometheus.Registerer) (upstream.Interface, error) {
	rules, err := newRules(s, p.rules, auth.Namespace)
	if err != nil || auth.Cluster == nil {
		return rules, err
	}
	policies := policy.Config{Store: auth.Cluster, Registry: s.registry, Objects: s.storeOf,
		Authorizer: auth.Authorizer}
	if auth.Client != nil {
		if policies.Cluster, err = parametersOf(auth.Client); err != nil {
			return nil, err
		}
	}
	// The server may run in a pod: Services have their DNS names there.
	webhooks := webhook.Config{
		Store: auth.Cluster, Services: services.New(services.Config{Store: auth.Cluster, DNS: true}),
		Authorizer: auth.Authorizer,
		Metrics:    webhook.NewMetrics(metrics),
	}
	row := func(name string, build func() (upstream.Interface, error)) admission.Plugin {
		return admission.Plugin{Name: name, On: true, New: func(admission.Deps) (upstream.Interface, error) {
			return build()
		}}
	}
	chain, err := admission.New(admission.Config{}, admission.Table{
		row("Rules", func() (upstream.Interface, error) { return rules, nil }),
		row("MutatingAdmissionPolicy", func() (upstream.Interface, error) { return policy.NewMutating(policies) }),
		row("MutatingAdmissionWebhook", func() (upstream.Interface, error) { return webhook.NewMutating(webhooks) }),
		row("ValidatingAdmissionPolicy", func() (upstream.Interface, error) { return policy.NewValidating(policies) }),
		row("ValidatingAdmissionWebhook", func() (upstream.Interface, error) {
			return webhook.NewValidating(webhooks)
		}),
	}, admission.Deps{})
	if err != nil {
		return nil, err
	}
	s.onStop = append(s.onStop, chain.Stop)
	return upstream.WithAudit(chain), nil
}

// storeOf returns the store with the objects of a kind.
func (s *Server) storeOf(res *resource.Resource) *store.Store {
	if m := s.mirrors[res.GroupResource()]; m != nil {
		return m.store
	}
	return s.store
}

// lookupTimeout limits how long a request waits for the lookup of the kind of a policy's
// parameters.
const lookupTimeout = 2 * time.Second

// parametersOf returns access to the parameters of policies in a cluster.
func parametersOf(config *restclient.Config) (*policy.Cluster, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client of the cluster: %w", err)
	}
	brief := restclient.CopyConfig(config)
	brief.Timeout = lookupTimeout
	kinds, err := discovery.NewDiscoveryClientForConfig(brief)
	if err != nil {
		return nil, fmt.Errorf("create client of the cluster: %w", err)
	}
	return &policy.Cluster{Client: client, Kinds: kinds}, nil
}
