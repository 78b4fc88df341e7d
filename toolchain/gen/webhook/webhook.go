// Package webhook generates the configurations of admission webhooks from the markers next to their
// code:
//
//	// +kubebuilder:webhook:path=/validate-batch-v1-job,mutating=false,failurePolicy=fail,sideEffects=None,groups=batch,resources=jobs,verbs=create;update,versions=v1,name=vjob.kb.io,admissionReviewVersions=v1
//
// Webhooks are sorted by name, so the file does not depend on the positions of the markers.
package webhook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// FileName is the name of the generated file.
const FileName = "manifests.yaml"

const (
	hookMarker          = "kubebuilder:webhook"
	configurationMarker = "kubebuilder:webhookconfiguration"
)

// Configurations has the webhook configurations of an API. A field is nil if the API has no such
// webhooks.
type Configurations struct {
	Mutating   *admissionv1.MutatingWebhookConfiguration
	Validating *admissionv1.ValidatingWebhookConfiguration
}

// Build builds the configurations from the markers of all packages. The error joins all errors.
func Build(api *model.API) (Configurations, error) {
	b := builder{names: map[bool]*marker.Marker{}}
	for _, p := range api.Packages {
		for _, m := range p.Markers {
			switch m.Name {
			case configurationMarker:
				b.configuration(m)
			case hookMarker:
				b.hook(m)
			}
		}
	}
	var c Configurations
	if len(b.mutating) > 0 {
		slices.SortStableFunc(b.mutating, func(x, y admissionv1.MutatingWebhook) int {
			return strings.Compare(x.Name, y.Name)
		})
		c.Mutating = &admissionv1.MutatingWebhookConfiguration{
			TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(),
				Kind: "MutatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{Name: b.name(true)}, Webhooks: b.mutating,
		}
	}
	if len(b.validating) > 0 {
		slices.SortStableFunc(b.validating, func(x, y admissionv1.ValidatingWebhook) int {
			return strings.Compare(x.Name, y.Name)
		})
		c.Validating = &admissionv1.ValidatingWebhookConfiguration{
			TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(),
				Kind: "ValidatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{Name: b.name(false)}, Webhooks: b.validating,
		}
	}
	return c, errors.Join(b.errs...)
}

type builder struct {
	mutating   []admissionv1.MutatingWebhook
	validating []admissionv1.ValidatingWebhook
	names      map[bool]*marker.Marker // by mutating: the marker that names the configuration
	errs       []error
}

func (b *builder) fail(m *marker.Marker, format string, args ...any) {
	b.errs = append(b.errs, loader.Errorf(m.Pos, "+"+m.Name+": "+format, args...))
}

// name returns the name of a configuration: from a marker, or else kubebuilder's default.
func (b *builder) name(mutating bool) string {
	if m := b.names[mutating]; m != nil && m.String("name") != "" {
		return m.String("name")
	}
	if mutating {
		return "mutating-webhook-configuration"
	}
	return "validating-webhook-configuration"
}

func (b *builder) configuration(m *marker.Marker) {
	mutating := *m.Bool("mutating")
	if first := b.names[mutating]; first != nil {
		b.fail(m, "another marker names the configuration with mutating=%v: %s", mutating, first.Pos)
		return
	}
	b.names[mutating] = m
}

// hook parses one webhook. Validating webhooks have the fields of mutating ones, except the
// reinvocation policy.
func (b *builder) hook(m *marker.Marker) {
	var h admissionv1.MutatingWebhook
	h.Name = m.String("name")
	h.AdmissionReviewVersions = m.Strings("admissionReviewVersions")
	if len(h.AdmissionReviewVersions) == 0 {
		b.fail(m, "admissionReviewVersions is empty")
	}
	if v := m.Strings("webhookVersions"); len(v) > 0 && !slices.Equal(v, []string{"v1"}) {
		b.fail(m, "webhookVersions must be v1")
	}
	h.Rules = rules(m)
	h.FailurePolicy = new(choose(m.String("failurePolicy"), admissionv1.Ignore, admissionv1.Fail))
	if s := m.String("matchPolicy"); s != "" {
		h.MatchPolicy = new(choose(s, admissionv1.Exact, admissionv1.Equivalent))
		if *h.MatchPolicy != admissionv1.Exact && *h.MatchPolicy != admissionv1.Equivalent {
			b.fail(m, "matchPolicy is Exact or Equivalent, not %q", s)
		}
	}
	h.SideEffects = new(choose(m.String("sideEffects"), admissionv1.SideEffectClassNone,
		admissionv1.SideEffectClassNoneOnDryRun))
	if *h.SideEffects != admissionv1.SideEffectClassNone && *h.SideEffects != admissionv1.SideEffectClassNoneOnDryRun {
		b.fail(m, "sideEffects must be None or NoneOnDryRun; servers accept no other")
	}
	if n := int32(m.Int("timeoutSeconds")); n != 0 {
		h.TimeoutSeconds = &n
	}
	if s := m.String("reinvocationPolicy"); s != "" {
		p := choose(s, admissionv1.NeverReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy)
		if p != admissionv1.NeverReinvocationPolicy && p != admissionv1.IfNeededReinvocationPolicy {
			b.fail(m, "reinvocationPolicy is Never or IfNeeded, not %q", s)
		}
		h.ReinvocationPolicy = &p
	}
	path, url := m.String("path"), m.String("url")
	if (path == "") == (url == "") {
		b.fail(m, "needs either path or url")
		return
	}
	h.ClientConfig = target(m, path, url)
	if *m.Bool("mutating") {
		if h, ok := patched(b, m, h); ok {
			b.mutating = append(b.mutating, h)
		}
		return
	}
	v := admissionv1.ValidatingWebhook{Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules,
		FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
		SideEffects: h.SideEffects, TimeoutSeconds: h.TimeoutSeconds,
		AdmissionReviewVersions: h.AdmissionReviewVersions}
	if v, ok := patched(b, m, v); ok {
		b.validating = append(b.validating, v)
	}
}

func target(m *marker.Marker, path, url string) admissionv1.WebhookClientConfig {
	if url != "" {
		return admissionv1.WebhookClientConfig{URL: &url}
	}
	s := &admissionv1.ServiceReference{Name: m.String("serviceName"), Namespace: m.String("serviceNamespace"),
		Path: &path}
	s.Name = cmp.Or(s.Name, "webhook-service")
	s.Namespace = cmp.Or(s.Namespace, "system")
	if m.Has("servicePort") {
		s.Port = new(int32(m.Int("servicePort")))
	}
	return admissionv1.WebhookClientConfig{Service: s}
}

func rules(m *marker.Marker) []admissionv1.RuleWithOperations {
	groups := slices.Clone(m.Strings("groups"))
	if len(groups) == 0 {
		groups = []string{""} // groups= means the core group, as groups="" does
	}
	for i, g := range groups {
		if g == "core" {
			groups[i] = ""
		}
	}
	r := admissionv1.RuleWithOperations{Rule: admissionv1.Rule{APIGroups: groups, APIVersions: m.Strings("versions"),
		Resources: m.Strings("resources")}}
	for _, v := range m.Strings("verbs") {
		r.Operations = append(r.Operations, choose(v, admissionv1.Create, admissionv1.Update, admissionv1.Delete,
			admissionv1.Connect, admissionv1.OperationAll))
	}
	return []admissionv1.RuleWithOperations{r}
}

// choose returns the value that equals a text, ignoring case. It returns any other text unchanged;
// the server validates it.
func choose[T ~string](text string, values ...T) T {
	for _, v := range values {
		if strings.EqualFold(text, string(v)) {
			return v
		}
	}
	return T(text)
}

// YAML encodes the configurations as YAML documents. It returns nil if there are none.
func YAML(c Configurations) ([]byte, error) {
	var out []byte
	add := func(name string, obj any) error {
		data, err := json.Marshal(obj)
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		doc, err := yaml.JSONToYAML(data)
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		out = append(append(out, "---\n"...), doc...)
		return nil
	}
	if c.Mutating != nil {
		if err := add(c.Mutating.Name, c.Mutating); err != nil {
			return nil, err
		}
	}
	if c.Validating != nil {
		if err := add(c.Validating.Name, c.Validating); err != nil {
			return nil, err
		}
	}
	return out, nil
}
