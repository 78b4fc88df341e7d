package webhook

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	static "k8s.io/apiserver/pkg/admission/plugin/webhook/manifest/source"

	folder "kelson.dev/apiserver/admission/internal/manifests"
)

// source is a folder whose manifests have been read.
type source = generic.ReloadableSource

// manifests are the webhooks of a folder. If the folder's content becomes invalid, the last valid
// webhooks stay in effect. All methods may be called on nil, and then do nothing.
type manifests struct {
	source   source
	follower folder.Follower
}

// newManifests reads the manifests of a folder and follows their changes until stop. It returns nil
// if dir is empty.
func newManifests(dir string, read func(dir string) (source, error)) (*manifests, error) {
	if dir == "" {
		return nil, nil
	}
	s, err := read(dir)
	if err != nil {
		return nil, fmt.Errorf("failed to load static webhook manifests from %q: %w", dir, err)
	}
	m := &manifests{source: s}
	m.follower.Follow(s)
	return m, nil
}

func (m *manifests) webhooks() []webhook.WebhookAccessor {
	if m == nil {
		return nil
	}
	return m.source.Webhooks()
}

func (m *manifests) stop() {
	if m != nil {
		m.follower.Stop()
	}
}

func readValidating(cfg Config) func(dir string) (source, error) {
	return func(dir string) (source, error) {
		if cfg.Manifests == nil {
			return nil, folder.ErrUnsupported
		}
		s := static.NewValidatingSource(dir, "",
			func(dir string) ([]*admissionregistrationv1.ValidatingWebhookConfiguration, string, error) {
				return cfg.Manifests.LoadValidatingWebhookManifests(dir)
			})
		return s, s.LoadInitial()
	}
}

func readMutating(cfg Config) func(dir string) (source, error) {
	return func(dir string) (source, error) {
		if cfg.Manifests == nil {
			return nil, folder.ErrUnsupported
		}
		s := static.NewMutatingSource(dir, "",
			func(dir string) ([]*admissionregistrationv1.MutatingWebhookConfiguration, string, error) {
				return cfg.Manifests.LoadMutatingWebhookManifests(dir)
			})
		return s, s.LoadInitial()
	}
}
