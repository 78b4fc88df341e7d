package manager_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/webhook"
)

// Metrics of webhooks have the usual names, and webhooks serve before anything else runs.
func TestWebhookMetrics(t *testing.T) {
	m, err := manager.New(manager.Config{
		REST: apitest.New().REST(), Name: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Webhooks: manager.WebhookConfig{Address: "127.0.0.1:0"},
	})
	must(t, err)
	must(t, m.AddWebhook(webhook.Hook{Path: "/mutate-x", Mutating: true},
		webhook.HandlerFunc(func(_ context.Context, req webhook.Request) webhook.Response {
			if req.Operation == "PANIC" {
				panic("requested panic")
			}
			return webhook.Allowed()
		})))
	if err := m.AddWebhook(webhook.Hook{Path: "/mutate-x"}, webhook.HandlerFunc(nil)); err == nil {
		t.Error("two webhooks at one path")
	}
	var before bool
	m.Add(manager.Func(func(ctx context.Context) error {
		select {
		case <-m.WebhookServer().Listening():
			before = true
		default:
		}
		<-ctx.Done()
		return nil
	}))
	stop := require.Running(t, m.Run)
	<-m.Elected()
	if err := m.AddWebhook(webhook.Hook{Path: "/late"}, webhook.HandlerFunc(nil)); err == nil {
		t.Error("a webhook was added too late")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for _, operation := range []string{"CREATE", "PANIC"} {
		body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":%q}}`, operation)
		resp, err := c.Post("https://"+m.WebhookServer().Address()+"/mutate-x", "application/json",
			strings.NewReader(body))
		must(t, err)
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Contains(string(answer), `"allowed":true`) != (operation == "CREATE") {
			t.Errorf("%s: %s", operation, answer)
		}
	}
	_, body := get(t, m.MetricsHandler(), "/metrics")
	for _, want := range []string{
		`controller_runtime_webhook_requests_total{code="200",webhook="/mutate-x"} 2`,
		`controller_runtime_webhook_requests_total{code="500",webhook="/mutate-x"} 0`,
		`controller_runtime_webhook_requests_in_flight{webhook="/mutate-x"} 0`,
		`controller_runtime_webhook_latency_seconds_count{webhook="/mutate-x"} 2`,
		`controller_runtime_webhook_panics_total 1`,
		`controller_runtime_conversion_webhook_panics_total 0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not among the metrics", want)
		}
	}
	if code, body := get(t, m.HealthHandler(), "/readyz?verbose"); code != 200 ||
		!strings.Contains(body, "[+]webhooks ok") {
		t.Errorf("%d %s", code, body)
	}
	stop()
	if !before {
		t.Error("a runnable ran before the webhooks were served")
	}
}

// If the webhooks cannot be served, nothing else starts.
func TestWebhooksThatDoNotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	for want, set := range map[string]func(*manager.Config, *webhook.Hook){
		"address already in use": func(cfg *manager.Config, _ *webhook.Hook) {
			cfg.Webhooks.Address = taken.Addr().String()
		},
		`invalid path "/validate-{a}"`: func(cfg *manager.Config, hook *webhook.Hook) {
			hook.Path, cfg.Webhooks.Address = "/validate-{a}", "127.0.0.1:0"
		},
		"/does/not/exist/tls.crt: no such": func(cfg *manager.Config, _ *webhook.Hook) {
			cfg.Webhooks.CertDir = "/does/not/exist"
		},
	} {
		cfg, hook := manager.Config{}, webhook.Hook{Path: "/validate-x"}
		set(&cfg, &hook)
		m, s := newManager(t, cfg)
		must(t, m.AddWebhook(hook, webhook.HandlerFunc(func(context.Context, webhook.Request) webhook.Response {
			return webhook.Allowed()
		})))
		started := func(what string) manager.Runnable {
			return manager.Func(func(context.Context) error { t.Error(what + " started"); return nil })
		}
		m.Add(started("the leader's work"))
		m.Add(manager.OnEveryReplica(started("other work")))
		_, err := m.Informers().For(configMap("a"))
		must(t, err)
		assert.ErrorContains(t, m.Run(t.Context()), want)
		select {
		case <-m.Elected():
			t.Error("the replica leads")
		default:
		}
		if requests := s.Requests(); len(requests) > 0 {
			t.Errorf("the server got the requests %q", requests)
		}
	}
}
