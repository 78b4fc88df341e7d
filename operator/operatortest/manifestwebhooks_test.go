package operatortest_test

import (
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/operatortest/manifest"
)

// Webhooks returns the webhook configurations of a folder, and an error if there are none.
func TestManifestWebhooks(t *testing.T) {
	dir := write(t, map[string]string{
		"hooks.yaml": `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: v}
`,
		"other.yaml": configMapOfManifest("c"),
	})
	hooks, err := manifest.Webhooks(dir)
	if err != nil || len(hooks) != 1 || hooks[0].Object.GetName() != "v" {
		t.Errorf("%v, %v", hooks, err)
	}
	_, err = manifest.Webhooks(dir + "/other.yaml")
	assert.ErrorIsf(t, err, manifest.ErrNone, "without configurations")
}
