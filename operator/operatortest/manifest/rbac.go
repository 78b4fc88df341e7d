package manifest

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrServiceAccounts is wrapped by the error about RBAC manifests that do not have exactly one
// ServiceAccount.
var ErrServiceAccounts = errors.New("want exactly one ServiceAccount")

// RBAC reads the manifests that give an operator its rights, such as a project's config/rbac. It
// returns them, with their namespaces before them, and the user name of the ServiceAccount among
// them. Paths are as for Read.
func RBAC(paths ...string) (manifests []Manifest, user string, err error) {
	read, err := Read(paths...)
	if err != nil {
		return nil, "", err
	}
	// Every control plane has these.
	namespaces := []string{"", "default", "kube-system", "kube-public", "kube-node-lease"}
	var accounts []string
	for _, m := range read {
		namespace := m.Object.GetNamespace()
		if !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
			manifests = append(manifests, Manifest{m.File, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
			}}})
		}
		if m.Object.GetAPIVersion() == "v1" && m.Object.GetKind() == "ServiceAccount" {
			accounts = append(accounts, "system:serviceaccount:"+namespace+":"+m.Object.GetName())
		}
	}
	if len(accounts) != 1 {
		return nil, "", fmt.Errorf("read RBAC manifests: %w in %q, got %d", ErrServiceAccounts, paths, len(accounts))
	}
	return append(manifests, read...), accounts[0], nil
}
