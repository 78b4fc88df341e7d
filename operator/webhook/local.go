package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// ownName is the name of the configuration for hooks that are in no manifest.
func (r *Registration) ownName() string { return "local-" + r.cfg.Name }

// registerOwn creates, updates or deletes the configuration of hooks that no other configuration
// refers to.
func (r *Registration) registerOwn(ctx context.Context, kind schema.GroupVersionKind, pem []byte) error {
	covered, err := r.covered(ctx, kind)
	if err != nil {
		return err
	}
	var hooks []Hook
	for _, h := range r.cfg.Hooks {
		if h.Mutating == (kind == mutatingConfigurations) && !covered[h.Path] && h.Kind.Kind != "" {
			hooks = append(hooks, h)
		}
	}
	var configuration client.Object
	if kind == mutatingConfigurations {
		c := &admissionregistrationv1.MutatingWebhookConfiguration{}
		for _, h := range hooks {
			w, err := r.webhook(h, pem)
			if err != nil {
				return err
			}
			c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, SideEffects: w.SideEffects,
				AdmissionReviewVersions: w.AdmissionReviewVersions,
			})
		}
		configuration = c
	} else {
		c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		for _, h := range hooks {
			w, err := r.webhook(h, pem)
			if err != nil {
				return err
			}
			c.Webhooks = append(c.Webhooks, w)
		}
		configuration = c
	}
	configuration.SetName(r.ownName())
	if len(hooks) == 0 {
		return client.IgnoreNotFound(r.cfg.Client.Delete(ctx, configuration))
	}
	if err := r.cfg.Client.Apply(ctx, configuration); err != nil {
		return err
	}
	for _, h := range hooks {
		r.registered(h.Path)
	}
	return nil
}

// covered returns the paths that other configurations of a kind refer to.
func (r *Registration) covered(ctx context.Context, kind schema.GroupVersionKind) (map[string]bool, error) {
	var configs []admissionregistrationv1.WebhookClientConfig
	if kind == mutatingConfigurations {
		list := &admissionregistrationv1.MutatingWebhookConfigurationList{}
		if err := r.cfg.Client.List(ctx, list); err != nil {
			return nil, err
		}
		for _, c := range list.Items {
			for _, w := range c.Webhooks {
				if c.Name != r.ownName() {
					configs = append(configs, w.ClientConfig)
				}
			}
		}
	} else {
		list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		if err := r.cfg.Client.List(ctx, list); err != nil {
			return nil, err
		}
		for _, c := range list.Items {
			for _, w := range c.Webhooks {
				if c.Name != r.ownName() {
					configs = append(configs, w.ClientConfig)
				}
			}
		}
	}
	covered := map[string]bool{}
	for _, c := range configs {
		if want, ours := r.clientConfig(c, nil); ours {
			covered[strings.TrimPrefix(*want.URL, r.cfg.URL)] = true
		}
	}
	return covered, nil
}

// webhook returns a hook as an entry of a webhook configuration.
func (r *Registration) webhook(h Hook, pem []byte) (admissionregistrationv1.ValidatingWebhook, error) {
	mapping, err := r.cfg.Client.Mapper().RESTMapping(h.Kind.GroupKind(), h.Kind.Version)
	if err != nil {
		return admissionregistrationv1.ValidatingWebhook{}, fmt.Errorf("register webhook %s: %w", h.Path, err)
	}
	operations := []admissionregistrationv1.OperationType{admissionregistrationv1.Create,
		admissionregistrationv1.Update}
	if !h.Mutating {
		operations = append(operations, admissionregistrationv1.Delete)
	}
	url, none := r.cfg.URL+h.Path, admissionregistrationv1.SideEffectClassNone
	group := h.Kind.Group
	if group == "" {
		group = "core"
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name:         nameOf(h.Path) + "." + group + ".local",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: pem},
		Rules: []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{h.Kind.Group}, APIVersions: []string{h.Kind.Version},
			Resources: []string{mapping.Resource.Resource},
		}}},
		SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
	}, nil
}

// nameOf returns a path as a label of a DNS name.
func nameOf(path string) string {
	parts := strings.FieldsFunc(strings.ToLower(path), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(parts, "-")
}

// registerConversion updates the conversion webhook of a CustomResourceDefinition, if it is of one
// of the operator's kinds.
func (r *Registration) registerConversion(ctx context.Context, name string, pem []byte) error {
	if !slices.ContainsFunc(r.cfg.Conversions, func(kind schema.GroupKind) bool {
		return strings.HasSuffix(name, "."+kind.Group)
	}) {
		return nil
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(definitions)
	if err := r.cfg.Client.Get(ctx, client.Key{Name: name}, crd); err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	if !slices.Contains(r.cfg.Conversions, schema.GroupKind{Group: group, Kind: kind}) {
		return nil
	}
	conversion, _, _ := unstructured.NestedMap(crd.Object, "spec", "conversion")
	current := struct {
		Strategy string
		Webhook  struct {
			ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`
			Versions     []string                                    `json:"conversionReviewVersions"`
		}
	}{}
	if err := convertFields(conversion, &current); err != nil {
		return fmt.Errorf("conversion of %s: %w", name, err)
	}
	config := current.Webhook.ClientConfig
	switch {
	case r.cfg.URL != "":
		url := r.cfg.URL + ConvertPath
		config = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: pem}
	case current.Strategy == "Webhook" && config.Service != nil && config.Service.Namespace == r.cfg.Namespace &&
		config.Service.Path != nil && *config.Service.Path == ConvertPath:
		config.CABundle = pem
	default:
		return nil
	}
	versions := current.Webhook.Versions
	if len(versions) == 0 {
		versions = []string{"v1"}
	}
	var patch []Operation
	if current.Strategy != "Webhook" || !sameConfig(current.Webhook.ClientConfig, config) {
		patch = []Operation{{Op: "add", Path: "/spec/conversion", Value: map[string]any{
			"strategy": "Webhook", "webhook": map[string]any{"clientConfig": config,
				"conversionReviewVersions": versions},
		}}}
	}
	err := r.patch(ctx, &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: definitions.GroupVersion().String(), Kind: definitions.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: crd.GetResourceVersion()},
	}, patch)
	if err == nil {
		r.registered(conversionOf(schema.GroupKind{Group: group, Kind: kind}))
	}
	return err
}

// convertFields decodes fields of an unstructured object.
func convertFields(fields map[string]any, into any) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
