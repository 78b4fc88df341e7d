package operator_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/webhook"
)

// reviewer is a generic admission webhook: it gets the complete request, and reads other objects.
type reviewer struct{ client operator.Client }

func (r reviewer) Handle(ctx context.Context, req webhook.Request) webhook.Response {
	var policy corev1.ConfigMap
	if err := r.client.Get(ctx, operator.Key{Namespace: "default", Name: "policy"}, &policy); err != nil {
		return webhook.Errored(http.StatusInternalServerError, err)
	}
	if req.Operation == "DELETE" {
		return webhook.Denied(policy.Name + " forbids it")
	}
	before, after := corev1.Pod{}, corev1.Pod{Spec: corev1.PodSpec{Hostname: policy.Name}}
	patch, err := webhook.Diff(req.Object.Raw, &before, &after)
	if err != nil {
		return webhook.Errored(http.StatusInternalServerError, err)
	}
	return webhook.Response{Allowed: true, Patch: patch}
}

// doorman validates only creations.
type doorman struct{}

func newDoorman(operator.Client) doorman { return doorman{} }

func (doorman) ValidateCreate(_ context.Context, cm *corev1.ConfigMap) (webhook.Warnings, error) {
	return nil, errors.New("no " + cm.Name)
}

// A validator has only the methods that it needs, at its own path.
func TestPartialValidator(t *testing.T) {
	s := apitest.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, managers := make(chan error, 1), make(chan *manager.Manager, 1)
	go func() {
		ended <- operator.Run(ctx, operator.Config{REST: s.REST(), Log: slog.New(slog.DiscardHandler),
			Webhooks: manager.WebhookConfig{Address: "127.0.0.1:0"}},
			operator.Webhook[corev1.ConfigMap](newDoorman, operator.ValidationPath("/hooks/door")),
			operator.Setup(func(deps operator.Deps) error { managers <- deps.Manager; return nil }))
	}()
	m := <-managers
	select {
	case <-m.Elected():
	case err := <-ended:
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: time.Minute}
	for operation, want := range map[string]string{"CREATE": `"allowed":false`, "UPDATE": `"allowed":true`,
		"DELETE": `"allowed":true`} {
		review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"` +
			operation +
			`","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"guest"}}}}`
		resp, err := c.Post("https://"+m.WebhookServer().Address()+"/hooks/door", "application/json",
			strings.NewReader(review))
		must(t, err)
		data, err := io.ReadAll(resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		assert.Containsf(t, string(data), want, "%s", operation)
	}
	cancel()
	must(t, <-ended)
}

// Generic admission, with a client that reads from the cache.
func TestAdmission(t *testing.T) {
	s := apitest.New()
	create(t, s, "default", "policy", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, managers := make(chan error, 1), make(chan *manager.Manager, 1)
	go func() {
		ended <- operator.Run(ctx, operator.Config{
			REST: s.REST(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Webhooks: manager.WebhookConfig{Address: "127.0.0.1:0"},
		},
			operator.Admission("/mutate-any", func(c operator.Client) webhook.Handler { return reviewer{c} }),
			operator.Setup(func(deps operator.Deps) error { managers <- deps.Manager; return nil }))
	}()
	m := <-managers
	select {
	case <-m.Elected():
	case err := <-ended:
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: time.Minute}
	for operation, want := range map[string]string{"DELETE": "policy forbids it",
		"CREATE": `{"op":"add","path":"/spec/hostname","value":"policy"}`} {
		review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"` +
			operation +
			`","object":{"kind":"Pod","apiVersion":"v1","spec":{"containers":null}}}}`
		resp, err := c.Post("https://"+m.WebhookServer().Address()+"/mutate-any", "application/json",
			strings.NewReader(review))
		must(t, err)
		data, err := io.ReadAll(resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		var answer struct {
			Response struct{ Patch string } `json:"response"`
		}
		must(t, json.Unmarshal(data, &answer))
		patch, err := base64.StdEncoding.DecodeString(answer.Response.Patch)
		must(t, err)
		assert.Containsf(t, string(data)+string(patch), want, "%s: %s %s", operation, data, patch)
	}
	cancel()
	must(t, <-ended)
}
