package explore_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/webhook"
)

const hookConfiguration = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating}
webhooks:
- name: configmaps.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: system, name: webhooks, path: /mutate--v1-configmap}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  objectSelector: {matchExpressions: [{key: hook, operator: Exists}]}
`

// sizes gives ConfigMaps a size.
type sizes struct{}

func (sizes) Default(_ context.Context, cm *corev1.ConfigMap) error {
	if cm.Data["size"] == "" {
		cm.Data = map[string]string{"size": "3"}
	}
	return nil
}

// hookedParts are an operator with a webhook.
func hookedParts() []operator.Part {
	reconcile := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Labels["hook"] == "" {
			return operator.Result{}, nil
		}
		return operator.Result{}, createSecret(ctx, c, cm, "-key", cm.Data["size"])
	}
	return []operator.Part{operator.Name("each"),
		operator.For(func(d operator.Deps) *each { return &each{d, reconcile} }, operator.Owns[corev1.Secret]()),
		operator.Webhook[corev1.ConfigMap](func(operator.Client) sizes { return sizes{} })}
}

// hookedScenario has a ConfigMap that the webhook changes. It has no operator.
func hookedScenario(t *testing.T) explore.Scenario {
	t.Helper()
	file := filepath.Join(t.TempDir(), "webhooks.yaml")
	require.NoError(t, os.WriteFile(file, []byte(hookConfiguration), 0o644))
	hooked := configMap("web")
	hooked.Labels = map[string]string{"hook": "yes"}
	return explore.Scenario{
		Env:    []testenv.Option{testenv.Webhooks(file)},
		Inputs: []explore.Input{explore.Create(hooked)},
		Invariants: []explore.Invariant{{Name: "default", Kind: "ConfigMap",
			Rule: "object == null || !has(object.metadata.labels) || object.data.size == '3'"}},
	}
}

// The control plane calls the webhooks of an operator in every run, also after each crash. Equal
// plans give equal histories.
func TestWebhooks(t *testing.T) {
	s := hookedScenario(t)
	handler := http.NewServeMux()
	mutating, _, err := webhook.Handlers[corev1.ConfigMap](sizes{})
	require.NoError(t, err)
	handler.Handle("/mutate--v1-configmap", webhook.Review(mutating))
	for name, run := range map[string]func(context.Context, *rest.Config) error{
		"the library": func(ctx context.Context, config *rest.Config) error {
			return explore.Parts(hookedParts()...)(ctx, config)
		},
		"another server": func(ctx context.Context, config *rest.Config) error {
			served := make(chan error, 1)
			go func() { served <- testenv.ServeWebhooks(ctx, handler) }()
			return errors.Join(explore.Parts(hookedParts()[:2]...)(ctx, config), <-served)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.Operator = run
			report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true})
			require.NoError(t, err)
			t.Log(report.Summary())
			for _, a := range report.Alarms {
				t.Errorf("false alarm: %s\nfaults: %s", a, a.Plan)
			}
			if report.Unequal > 0 {
				t.Errorf("%s", report.Summary())
			}
			const plan = "kill-after create secrets default/web-key #1; recreate after configmaps default/web #1"
			if alarms, steps := explore.ReplayPlan(t, s, plan); len(alarms) > 0 ||
				!strings.Contains(strings.Join(steps, "\n"), "FAULT recreate") {
				t.Errorf("%v\n%s", alarms, strings.Join(steps, "\n"))
			}
			if repetition, err := explore.Repeat(t, s, plan, 3); err != nil || repetition.Unequal > 0 {
				t.Errorf("%v, %v", repetition, err)
			}
		})
	}
}

// spoils gives ConfigMaps a label that the server refuses.
type spoils struct{}

func (spoils) Default(_ context.Context, cm *corev1.ConfigMap) error {
	cm.Labels["not valid"] = ""
	return nil
}

// If the server refuses an object that a webhook has changed, the message says so.
func TestWebhookSpoilsInput(t *testing.T) {
	s := hookedScenario(t)
	s.Operator = explore.Parts(append(hookedParts()[:2],
		operator.Webhook[corev1.ConfigMap](func(operator.Client) spoils { return spoils{} }))...)
	_, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true})
	if err == nil || !strings.Contains(err.Error(), `input "create ConfigMap default/web"`) ||
		!strings.Contains(err.Error(), "the operator's webhook has set it") {
		t.Errorf("%v, want the cause", err)
	}
}
