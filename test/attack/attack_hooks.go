package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"kelson.dev/apiserver/attacktest/bodies"
)

// hangingWebhook registers a validating webhook for the attacker's namespace. Its server accepts
// connections and never answers. It ends with this program.
func hangingWebhook(ctx context.Context, t *target) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { conn.Close() })
		}
	}()
	return t.create(ctx, admin, [][2]string{{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", fmt.Sprintf(`{
		"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"hangs"},
		"webhooks":[{"name":"hangs.example.com","clientConfig":{"url":"https://%s/"},"sideEffects":"None","admissionReviewVersions":["v1"],"timeoutSeconds":10,
			"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}],
			"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}}}]}`, listener.Addr())}})
}

// waitingWrites keeps 400 writes in flight that wait for the webhook. Every eighth is large.
func waitingWrites(ctx context.Context, t *target) error {
	small, large := configMap("waits", "x"), configMap("waits", strings.Repeat("x", 64<<10))
	t.flood(ctx, 400, 20_000, func(i int) (string, string, string, string, string, []string) {
		body := small
		if i%8 == 0 {
			body = large
		}
		return editor, http.MethodPost, defaultMaps, bodies.JSON, body, nil
	})
	return nil
}
