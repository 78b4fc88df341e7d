package manifest

import "fmt"

// Webhooks reads the webhook configurations in manifests, such as a project's config/webhook. It
// skips other objects, and returns an error that wraps [ErrNone] if there are no configurations.
// Paths are as for Read.
func Webhooks(paths ...string) ([]Manifest, error) {
	all, err := Read(paths...)
	if err != nil {
		return nil, err
	}
	var hooks []Manifest
	for _, m := range all {
		switch m.Object.GetKind() {
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			hooks = append(hooks, m)
		}
	}
	if len(hooks) == 0 {
		return nil, fmt.Errorf("read webhook configurations: %w of these kinds in %q", ErrNone, paths)
	}
	return hooks, nil
}
