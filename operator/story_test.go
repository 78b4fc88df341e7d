package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest/apiserver"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/webhook"
)

// Boat is a kind in two versions. The hub counts sails, the old version has their names.
type Boat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BoatSpec `json:"spec"`
}

type BoatSpec struct {
	Sails int    `json:"sails"`
	Flag  string `json:"flag,omitempty"`
}

type OldBoat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OldBoatSpec `json:"spec"`
}

type OldBoatSpec struct {
	Sails []string `json:"sails,omitempty"`
	Flag  string   `json:"flag,omitempty"`
}

func (b *Boat) Hub()                              {}
func (b *Boat) DeepCopyObject() runtime.Object    { return copyOf(b) }
func (b *OldBoat) DeepCopyObject() runtime.Object { return copyOf(b) }

func (b *OldBoat) ConvertTo(hub webhook.Hub) error {
	h := hub.(*Boat)
	h.ObjectMeta, h.Spec = b.ObjectMeta, BoatSpec{Sails: len(b.Spec.Sails), Flag: b.Spec.Flag}
	return nil
}

func (b *OldBoat) ConvertFrom(hub webhook.Hub) error {
	h := hub.(*Boat)
	b.ObjectMeta, b.Spec = h.ObjectMeta, OldBoatSpec{Flag: h.Spec.Flag}
	for i := range h.Spec.Sails {
		b.Spec.Sails = append(b.Spec.Sails, fmt.Sprint("sail-", i+1))
	}
	return nil
}

func addBoats(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(schema.GroupVersionKind{Group: "sea.kelson.dev", Version: "v2", Kind: "Boat"}, &Boat{})
	s.AddKnownTypeWithName(schema.GroupVersionKind{Group: "sea.kelson.dev", Version: "v1", Kind: "Boat"}, &OldBoat{})
	return nil
}

type boatWebhook struct{ client operator.Client }

func newBoatWebhook(c operator.Client) *boatWebhook { return &boatWebhook{c} }

func (w *boatWebhook) Default(_ context.Context, boat *Boat) error {
	if boat.Spec.Flag == "" {
		boat.Spec.Flag = "white"
	}
	return nil
}

func (w *boatWebhook) ValidateCreate(_ context.Context, boat *Boat) (webhook.Warnings, error) {
	if boat.Spec.Sails > 9 {
		return nil, errors.New("too many sails")
	}
	return nil, nil
}

func (w *boatWebhook) ValidateUpdate(_ context.Context, old, boat *Boat) (webhook.Warnings, error) {
	if boat.Spec.Sails < old.Spec.Sails {
		return nil, fmt.Errorf("a boat with %d sails cannot lose any", old.Spec.Sails)
	}
	return nil, nil
}

func (w *boatWebhook) ValidateDelete(_ context.Context, boat *Boat) (webhook.Warnings, error) {
	if boat.Spec.Flag == "pirate" {
		return nil, errors.New("a boat with a pirate flag cannot be deleted")
	}
	return nil, nil
}

const boatCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boats.sea.kelson.dev"},
"spec":{"group":"sea.kelson.dev","scope":"Namespaced","names":{"kind":"Boat","plural":"boats","singular":"boat","listKind":"BoatList"},"versions":[
{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
  "sails":{"type":"integer"},"flag":{"type":"string"}}}}}}},
{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
  "sails":{"type":"array","items":{"type":"string"}},"flag":{"type":"string"}}}}}}}]}}`

func boat(version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sea.kelson.dev/" + version, "kind": "Boat",
		"metadata": map[string]any{"namespace": "default", "name": name}, "spec": spec}}
}

// startOperator runs an operator until the test ends, or until stop is called.
func startOperator(t *testing.T, cfg operator.Config, parts ...operator.Part) (stop func()) {
	t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := operator.Run(ctx, cfg, append(parts, operator.Name("story"))...)
		assert.NoErrorf(t, err, "the operator ended")
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// An API server calls the operator's webhooks, with certificates issued by the operator.
func TestWebhookStory(t *testing.T) {
	cfg := apiserver.For(t)
	c, err := client.New(client.Config{REST: cfg})
	must(t, err)
	ctx := t.Context()
	crd := &unstructured.Unstructured{}
	must(t, crd.UnmarshalJSON([]byte(boatCRD)))
	// another test's may not be deleted completely yet
	require.Success(t, func() error { return c.Create(ctx, crd) })
	t.Cleanup(func() { _ = c.Delete(context.Background(), crd) })

	stop := startOperator(t, operator.Config{REST: cfg,
		Webhooks: manager.WebhookConfig{Local: true, Address: "127.0.0.1:0"}},
		operator.AddToScheme(addBoats), operator.Conversion[Boat](), operator.Webhook[Boat](newBoatWebhook))

	tooMany := boat("v2", "galleon", map[string]any{"sails": int64(12)})
	require.Success(t, func() error {
		err := c.Create(ctx, tooMany.DeepCopy())
		if err == nil {
			_ = c.Delete(ctx, tooMany)
			return errors.New("a boat with too many sails was created")
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied the request: too many sails") {
			return err
		}
		return nil
	})
	require.Success(t, func() error { // the configuration for defaulting is a separate object
		cutter := boat("v1", "cutter", map[string]any{"sails": []any{"main", "jib"}})
		if err := c.Create(ctx, cutter); err != nil {
			return err
		}
		if flag, _, _ := unstructured.NestedString(cutter.Object, "spec", "flag"); flag != "white" {
			_ = c.Delete(ctx, cutter)
			return fmt.Errorf("the flag is %q", flag)
		}
		return nil
	})
	stored := boat("v2", "cutter", nil)
	must(t, c.Get(ctx, client.KeyOf(stored), stored))
	sails, _, _ := unstructured.NestedInt64(stored.Object, "spec", "sails")
	assert.Equalf(t, sails, 2, "converted to %v", stored.Object["spec"])
	must(t, unstructured.SetNestedField(stored.Object, int64(1), "spec", "sails"))
	if err := c.Update(ctx, stored); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "a boat with 2 sails cannot lose any") {
		t.Errorf("got %v", err)
	}
	must(t, c.Get(ctx, client.KeyOf(stored), stored))
	must(t, unstructured.SetNestedField(stored.Object, "pirate", "spec", "flag"))
	must(t, c.Update(ctx, stored))
	if err := c.Delete(ctx, stored); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "a boat with a pirate flag cannot be deleted") {
		t.Errorf("got %v", err)
	}

	stop()
	for _, obj := range []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}} {
		if err := c.Get(ctx, client.Key{Name: "local-story"}, obj); !apierrors.IsNotFound(err) {
			t.Errorf("%T is left behind: %v", obj, err)
		}
	}
	require.Success(t, func() error { return c.Delete(ctx, stored) })
}

// In a cluster, the CA bundle is written to the configurations that refer to the operator's
// Service, and to no others.
func TestCABundleIsInjected(t *testing.T) {
	cfg := apiserver.For(t)
	c, err := client.New(client.Config{REST: cfg})
	must(t, err)
	ctx := t.Context()
	crd := &unstructured.Unstructured{}
	must(t, crd.UnmarshalJSON([]byte(boatCRD)))
	must(t, unstructured.SetNestedMap(crd.Object, map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"},
		"clientConfig": map[string]any{"service": map[string]any{"namespace": "default", "name": "hooks",
			"path": "/convert"}},
	}}, "spec", "conversion"))
	// another test's may not be deleted completely yet
	require.Success(t, func() error { return c.Create(ctx, crd) })
	t.Cleanup(func() { _ = c.Delete(context.Background(), crd) })

	path, none, ignore := "/validate-sea-kelson-dev-v2-boat", admissionregistrationv1.SideEffectClassNone,
		admissionregistrationv1.Ignore
	hook := func(name, namespace string) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name: name + ".sea.kelson.dev", SideEffects: &none, FailurePolicy: &ignore,
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "hooks", Path: &path}},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{
				admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{"sea.kelson.dev"}, APIVersions: []string{"v2"},
					Resources: []string{"boats"}}}},
		}
	}
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "story-hooks"},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{hook("stranger", "elsewhere"), hook("ours", "default")},
	}
	must(t, c.Create(ctx, hooks))
	t.Cleanup(func() { _ = c.Delete(context.Background(), hooks) })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "story-webhook-cert"}}
	t.Cleanup(func() { _ = c.Delete(context.Background(), secret) })

	startOperator(t, operator.Config{REST: cfg, Webhooks: manager.WebhookConfig{Address: "127.0.0.1:0",
		Namespace: "default"}},
		operator.AddToScheme(addBoats), operator.Conversion[Boat](), operator.Webhook[Boat](newBoatWebhook))
	check := func() error {
		if err := c.Get(ctx, client.KeyOf(secret), secret); err != nil {
			return err
		}
		now := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := c.Get(ctx, client.KeyOf(hooks), now); err != nil {
			return err
		}
		if got := string(now.Webhooks[1].ClientConfig.CABundle); got == "" || got != string(secret.Data["ca.crt"]) {
			return fmt.Errorf("the operator's webhook has the CA bundle %q", got)
		}
		if got := now.Webhooks[0].ClientConfig.CABundle; len(got) > 0 {
			t.Error("another operator's webhook has our CA bundle")
		}
		if err := c.Get(ctx, client.KeyOf(crd), crd); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig",
			"caBundle"); got == "" {
			return errors.New("the CustomResourceDefinition has no CA bundle")
		}
		return nil
	}
	require.Success(t, check)
	// Applying the manifest again removes nothing.
	now := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	must(t, c.Get(ctx, client.KeyOf(hooks), now))
	now.Webhooks[1].ClientConfig.CABundle = nil
	must(t, c.Update(ctx, now))
	require.Success(t, check)
}
