package loop

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"

	"kelson.dev/cmd/kelson/internal/backend"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/operator/operatortest/manifest"
)

// defaultAddress is the address at which operators based on controller-runtime serve webhooks.
const defaultAddress = "127.0.0.1:9443"

// webhooks are the webhooks of an operator on this machine. URLs replace the services in the
// manifests. Operators look for certificates in their temporary folder, so each run has its own.
type webhooks struct {
	address        string
	temp           string
	ca             []byte
	configurations manifests.Objects
}

// newWebhooks creates certificates for a project's webhooks. It returns nil if the project has
// none.
func newWebhooks(p *project.Project, temp string) (*webhooks, error) {
	dir := p.Dir
	found, err := manifest.Read(filepath.Join(dir, "config", "webhook", "manifests.yaml"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, manifest.ErrNone) {
		found, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	definitions, err := manifests.Definitions(dir)
	if err != nil {
		return nil, err
	}
	h := &webhooks{temp: filepath.Join(temp, "tmp"), address: defaultAddress}
	converts := false
	for _, crd := range definitions {
		strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
		converts = converts || strategy == "Webhook"
	}
	if len(found) == 0 && !converts {
		return nil, nil
	}
	if p.MainImports("kelson.dev/operator") {
		// The library's main function has a flag for the address, so that several operators can run
		// at the same time. Projects without this function have their own flags.
		if h.address, err = backend.FreeAddress(); err != nil {
			return nil, err
		}
		p.Args = append(p.Args, "--webhook-bind-address="+h.address)
	}
	public, private, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	h.ca = public
	folder := filepath.Join(h.temp, "k8s-webhook-server", "serving-certs")
	err = errors.Join(os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "tls.crt"), public, 0o600),
		os.WriteFile(filepath.Join(folder, "tls.key"), private, 0o600))
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		list, _, _ := unstructured.NestedSlice(m.Object.Object, "webhooks")
		for _, hook := range list {
			if hook, ok := hook.(map[string]any); ok {
				if config, ok := hook["clientConfig"].(map[string]any); ok {
					hook["clientConfig"] = h.localConfig(config)
				}
			}
		}
		if err := unstructured.SetNestedSlice(m.Object.Object, list, "webhooks"); err != nil {
			return nil, err
		}
		h.configurations = append(h.configurations, m.Object)
	}
	return h, nil
}

func (h *webhooks) env() []string { return []string{"TMPDIR=" + h.temp} }

// localConfig returns the client configuration of a webhook on this machine.
func (h *webhooks) localConfig(config map[string]any) map[string]any {
	path, _, _ := unstructured.NestedString(config, "service", "path")
	return map[string]any{"url": "https://" + h.address + path, "caBundle": base64.StdEncoding.EncodeToString(h.ca)}
}

// convert points the conversion webhooks of definitions to this machine.
func (h *webhooks) convert(definitions manifests.Objects) {
	for _, crd := range definitions {
		config, ok, _ := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig")
		if ok {
			_ = unstructured.SetNestedMap(crd.Object, h.localConfig(config), "spec", "conversion", "webhook",
				"clientConfig")
		}
	}
}

// withoutConversion removes conversion webhooks, because the operator does not serve them.
func withoutConversion(definitions manifests.Objects) {
	for _, crd := range definitions {
		if strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion",
			"strategy"); strategy == "Webhook" {
			unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
		}
	}
}

// served waits until the webhooks accept connections. It returns nil if the operator exits first:
// Run reports the exit.
func (h *webhooks) served(ctx context.Context, ended <-chan struct{}) error {
	if _, err := backend.Accepts(ctx, h.address, ended); err != nil {
		return fmt.Errorf("wait for webhooks: the operator does not serve them at %s: %w", h.address, err)
	}
	return nil
}
