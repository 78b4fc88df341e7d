package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"kelson.dev/apiserver/admission/matching"
	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

const (
	mutatingConfigurations   = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
	validatingConfigurations = "validatingwebhookconfigurations.admissionregistration.k8s.io"
)

// Config configures the plugins.
type Config struct {
	Store *store.Store
	// Services resolves the Services that webhooks name.
	Services *services.Resolver
	// Authorizer is used by match conditions.
	Authorizer authorizer.UnconditionalAuthorizer
	// Config is a WebhookAdmissionConfiguration with the server's credentials for webhooks and the
	// folder with manifests of webhooks. It may be nil.
	Config []byte
	// Manifests reads the folder. If it is nil, Config must not name a folder.
	Manifests *initializer.ManifestLoaders
	// Transport, if not nil, carries the requests to webhooks instead of the network. A request for
	// a Service has the URL https://NAME.NAMESPACE.svc:PORT/PATH.
	Transport http.RoundTripper
	// Dial, if not nil, connects to webhooks. For a Service, the address is
	// NAME.NAMESPACE.svc:PORT.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Metrics counts calls; nil disables them.
	Metrics *Metrics
}

// hooks is the common part of both plugins.
type hooks struct {
	view       *derived.View[[]webhook.WebhookAccessor] // webhooks of the API
	manifests  *manifests                               // nil without a folder
	clients    *clients
	namespaces *namespace.Matcher
	objects    object.Matcher
	compiler   func() cel.ConditionCompiler
	authorizer authorizer.UnconditionalAuthorizer
	metrics    *Metrics
	kind       string // "admit" or "validating", in metrics
}

// compiled is the key under which a configuration's webhooks are cached with its object.
type compiled struct{}

// newHooks follows the configurations of a resource. accessors returns the webhooks of one
// configuration, and read returns those of a folder.
func newHooks(cfg Config, resource, kind string, accessors func(*store.Object) ([]webhook.WebhookAccessor, error),
	read func(dir string) (source, error)) (*hooks, error) {
	var file io.Reader
	if cfg.Config != nil {
		file = bytes.NewReader(cfg.Config)
	}
	settings, err := config.LoadConfig(file)
	if err != nil {
		return nil, err
	}
	static, err := newManifests(settings.StaticManifestsDir, read)
	if err != nil {
		return nil, err
	}
	h := &hooks{
		clients: &clients{services: cfg.Services, kubeconfig: settings.KubeConfigFile, transport: cfg.Transport,
			dial: cfg.Dial},
		manifests:  static,
		namespaces: matching.Namespaces(cfg.Store),
		compiler: sync.OnceValue(func() cel.ConditionCompiler {
			return cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		}),
		authorizer: cfg.Authorizer,
		metrics:    cfg.Metrics,
		kind:       kind,
	}
	h.view = derived.NewView(cfg.Store, func(sn *store.Snapshot) ([]webhook.WebhookAccessor, error) {
		var all []webhook.WebhookAccessor
		for obj := range sn.Scan(resource, "", store.Key{}) {
			webhooks, err := obj.Memo(compiled{}, func() (any, error) { return accessors(obj) })
			if err != nil {
				return nil, err
			}
			all = append(all, webhooks.([]webhook.WebhookAccessor)...)
		}
		h.clients.keep(slices.Concat(h.manifests.webhooks(), all))
		return all, nil
	}, resource)
	return h, nil
}

func mutatingOf(obj *store.Object) ([]webhook.WebhookAccessor, error) {
	c, err := derived.Of[admissionregistrationv1.MutatingWebhookConfiguration](obj)
	if err != nil {
		return nil, err
	}
	uid := numbered(c.Name)
	all := make([]webhook.WebhookAccessor, len(c.Webhooks))
	for i := range c.Webhooks {
		all[i] = webhook.NewMutatingWebhookAccessor(uid(c.Webhooks[i].Name), c.Name, &c.Webhooks[i])
	}
	return all, nil
}

func validatingOf(obj *store.Object) ([]webhook.WebhookAccessor, error) {
	c, err := derived.Of[admissionregistrationv1.ValidatingWebhookConfiguration](obj)
	if err != nil {
		return nil, err
	}
	uid := numbered(c.Name)
	all := make([]webhook.WebhookAccessor, len(c.Webhooks))
	for i := range c.Webhooks {
		all[i] = webhook.NewValidatingWebhookAccessor(uid(c.Webhooks[i].Name), c.Name, &c.Webhooks[i])
	}
	return all, nil
}

// numbered returns unique names for the webhooks of a configuration, whose own names can repeat.
func numbered(configuration string) func(name string) string {
	seen := map[string]int{}
	return func(name string) string {
		seen[name]++
		return fmt.Sprintf("%s/%s/%d", configuration, name, seen[name]-1)
	}
}

// Handles returns true for all operations.
func (h *hooks) Handles(admission.Operation) bool { return true }

// Idle reports whether no webhook is configured for an operation.
func (h *hooks) Idle(op admission.Operation) bool {
	api, err := h.view.Get()
	if err != nil {
		return false // the request then returns the error
	}
	return idle(api, op) && idle(h.manifests.webhooks(), op)
}

func idle(all []webhook.WebhookAccessor, op admission.Operation) bool {
	for _, hook := range all {
		for _, rule := range hook.GetRules() {
			if slices.Contains(rule.Operations, admissionregistrationv1.OperationAll) ||
				slices.Contains(rule.Operations, admissionregistrationv1.OperationType(op)) {
				return false
			}
		}
	}
	return true
}

// candidates returns the webhooks that may match a request: those of manifests first.
func (h *hooks) candidates(a admission.Attributes) ([]webhook.WebhookAccessor, error) {
	if matching.Review(a) {
		return nil, nil
	}
	static := h.manifests.webhooks()
	if rules.IsExemptAdmissionConfigurationResource(a) {
		return static, nil
	}
	api, err := h.view.Get()
	if err != nil || len(static) == 0 {
		return api, err
	}
	return slices.Concat(static, api), nil
}

// Stop stops following the manifests, and closes the connections to webhooks.
func (h *hooks) Stop() {
	h.manifests.stop()
	h.clients.stop()
}
