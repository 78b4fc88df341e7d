package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrServiceAccounts is wrapped by the error about RBAC manifests that do not have exactly one
// ServiceAccount.
var ErrServiceAccounts = errors.New("want exactly one ServiceAccount")

// RBAC reads the manifests that give an operator its rights, such as a project's config/rbac. It
// returns them, with their namespaces before them, and the user name of the ServiceAccount among
// them. Roles, RoleBindings and ServiceAccounts that bindings name get the namespace of the
// ServiceAccount if they have none, as kubebuilder writes them for kustomize. Paths are as for
// Read.
func RBAC(paths ...string) (manifests []Manifest, user string, err error) {
	read, err := Read(paths...)
	if err != nil {
		return nil, "", err
	}
	// Every control plane has these.
	namespaces := []string{"", "default", "kube-system", "kube-public", "kube-node-lease"}
	var accounts []string
	setNamespaces(read)
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
		return nil, "", fmt.Errorf("read RBAC manifests: %w in %s, got %d%s", ErrServiceAccounts, listed(paths),
			len(accounts), named(accounts))
	}
	return append(manifests, read...), accounts[0], nil
}

// listed returns paths for a message: all, or the first if they are many.
func listed(paths []string) string {
	if len(paths) > 3 {
		return fmt.Sprintf("%q and %d other files", paths[0], len(paths)-1)
	}
	return fmt.Sprintf("%q", paths)
}

// named returns the names of users for a message; "" for none.
func named(users []string) string {
	if len(users) == 0 {
		return ""
	}
	return " (" + strings.Join(users, ", ") + ")"
}

// setNamespaces sets the namespace of Roles, RoleBindings and ServiceAccounts that have none, also
// of those that the subjects of bindings name.
func setNamespaces(manifests []Manifest) {
	namespace := metav1.NamespaceDefault
	for _, m := range manifests {
		if m.Object.GetKind() == "ServiceAccount" && m.Object.GetNamespace() != "" {
			namespace = m.Object.GetNamespace()
		}
	}
	for _, m := range manifests {
		if slices.Contains([]string{"Role", "RoleBinding", "ServiceAccount"}, m.Object.GetKind()) &&
			m.Object.GetNamespace() == "" {
			m.Object.SetNamespace(namespace)
		}
		subjects, _, _ := unstructured.NestedSlice(m.Object.Object, "subjects")
		for _, s := range subjects {
			subject, ok := s.(map[string]any)
			if ok && subject["kind"] == "ServiceAccount" &&
				(subject["namespace"] == nil || subject["namespace"] == "") {
				subject["namespace"] = namespace
			}
		}
		if len(subjects) > 0 {
			m.Object.Object["subjects"] = subjects // NestedSlice returns a copy
		}
	}
}
