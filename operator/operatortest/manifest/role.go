package manifest

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrNoRoles is wrapped by the error about manifests without Roles and ClusterRoles.
var ErrNoRoles = errors.New("no Roles or ClusterRoles")

// RoleUser is the user with the rights of Role.
const RoleUser = "system:serviceaccount:" + roleNamespace + ":" + roleAccount

const (
	roleNamespace = "operatortest"
	roleAccount   = "operator"
)

// Role reads the Roles and ClusterRoles in manifests, such as the generated config/rbac/role.yaml,
// and returns them with bindings to [RoleUser] and with their namespaces before them. A Role
// without a namespace is in "default". Other objects are skipped. Paths are as for Read.
func Role(paths ...string) ([]Manifest, error) {
	read, err := Read(paths...)
	if err != nil {
		return nil, err
	}
	var all []Manifest
	made := map[string]bool{"default": true, "kube-system": true, "kube-public": true, "kube-node-lease": true}
	for _, m := range read {
		kind := m.Object.GetKind()
		if kind != "Role" && kind != "ClusterRole" {
			continue
		}
		meta := map[string]any{"name": roleNamespace + ":" + m.Object.GetName()}
		if kind == "Role" {
			if m.Object.GetNamespace() == "" {
				m.Object.SetNamespace("default")
			}
			namespace := m.Object.GetNamespace()
			meta["namespace"] = namespace
			if !made[namespace] {
				made[namespace] = true
				all = append(all, Manifest{m.File, &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
				}}})
			}
		}
		all = append(all, m, Manifest{m.File, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind + "Binding", "metadata": meta,
			"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": kind,
				"name": m.Object.GetName()},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": roleNamespace,
				"name": roleAccount}},
		}}})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("read roles: %w in %q", ErrNoRoles, paths)
	}
	return all, nil
}
