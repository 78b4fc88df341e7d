package webhook

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"kelson.dev/internal/assert"
)

// Hooks at custom paths, including paths with several segments, are registered on a developer's
// machine, and recognized after the port has changed.
func TestCustomPaths(t *testing.T) {
	r := NewRegistration(RegistrationConfig{URL: "https://127.0.0.1:2",
		Hooks: []Hook{{Path: "/hooks/v1/Door"}, {Path: "/mutate--v1-pod", Mutating: true}}})
	for path, want := range map[string]string{"/hooks/v1/Door": "hooks-v1-door", "/mutate--v1-pod": "mutate-v1-pod"} {
		assert.Equalf(t, nameOf(path), want, "the name of %s", path)
		old := "https://127.0.0.1:1" + path
		config, ours := r.clientConfig(admissionregistrationv1.WebhookClientConfig{URL: &old}, nil)
		if !ours || *config.URL != "https://127.0.0.1:2"+path {
			t.Errorf("%s: ours %v, %v", old, ours, config)
		}
	}
	other := "https://127.0.0.1:1/other/hooks/v1/Door"
	if _, ours := r.clientConfig(admissionregistrationv1.WebhookClientConfig{URL: &other}, nil); ours {
		t.Error("a hook with another path counts as ours")
	}
}
