package toolchain_test

import (
	"path/filepath"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain/adopt"
)

// The deployed kustomization is the only one that the target deploy builds, otherwise
// config/default.
func TestDeployment(t *testing.T) {
	for name, tc := range map[string]struct{ makefile, folder, source string }{
		"kubebuilder": {`
deploy: manifests kustomize
	cd config/manager && $(KUSTOMIZE) edit set image controller=${IMG}
	$(KUSTOMIZE) build config/default | $(KUBECTL) apply -f -
`, "config/default", ""},
		"kubectl apply -k": {`
undeploy:
	kubectl delete -k config/other
deploy: manifests
	cd config/manager && $(KUSTOMIZE) edit set image controller=${IMG}
	yq eval -i 'del(.a)' config/a.yaml
	kubectl apply --force-conflicts --server-side -k config/deployments/cluster
`, "config/deployments/cluster", "Makefile:6"},
		"a folder in a variable": {`
KUSTOMIZE = $(LOCALBIN)/kustomize
MODE ?= other
deploy deploy-local:
	$(KUSTOMIZE) build --load-restrictor=LoadRestrictionsNone config/$(MODE) | kubectl apply -f -
`, "config/other", "Makefile:4"},
		"kubectl kustomize in a folder": {`
deploy:
	cd config/deployments && kubectl kustomize cluster | kubectl apply -f -
`, "config/deployments/cluster", "Makefile:2"},
		"several": {`
deploy:
	kustomize build config/other | kubectl apply -f -
	kustomize build config/deployments/cluster | kubectl apply -f -
`, "config/default", ""},
		"another folder before config/default": {`
deploy:
	kustomize build config/other | kubectl apply -f -
	kustomize build config/default | kubectl apply -f -
`, "config/default", ""},
		"an unknown folder": {`
deploy:
	go build -o bin/deploy ./config/other
	$(KUSTOMIZE) build config/$(OVERLAY) | kubectl apply -f -
	kubectl apply -k config/nowhere
`, "config/default", ""},
		"a helper": {"deploy:\n\t./hack/deploy.sh\n", "config/default", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := adoptProject(t, `
-- config/other/kustomization.yml --
-- config/default/kustomization.yaml --
-- config/deployments/cluster/Kustomization --
-- Makefile --`+tc.makefile)
			folder, source, err := adopt.Deployment(dir)
			require.NoError(t, err)
			if folder != filepath.Join(dir, tc.folder) || source != tc.source {
				t.Errorf("%s of %s, want %s of %s", folder, source, tc.folder, tc.source)
			}
		})
	}
	dir := t.TempDir()
	if folder, source, err := adopt.Deployment(dir); folder != filepath.Join(dir, "config/default") || source != "" ||
		err != nil {
		t.Errorf("without a Makefile: %s %s %v", folder, source, err)
	}
}
