package rights

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"kelson.dev/cmd/kelson/internal/dev/deployed"
	"kelson.dev/toolchain/gen/rbac"
)

// deployedRoles returns the roles that config/default binds to the operator's service account, such
// as the one for leader election, without the role that is generated from markers: its file can be
// older than the markers. It returns none if the project has no config/default.
func deployedRoles(dir string) ([]rbac.Role, error) {
	m, err := (&deployed.Source{Dir: dir}).Read()
	if errors.Is(err, deployed.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rules := map[string][]rbacv1.PolicyRule{} // by kind, namespace and name
	for _, obj := range m.Objects {
		if obj.GroupVersionKind().Group != rbacv1.GroupName || strings.Contains(obj.GetName(), rbac.DefaultRole) {
			continue
		}
		if kind := obj.GetKind(); kind == "Role" || kind == "ClusterRole" {
			role := &rbacv1.ClusterRole{}
			if err := decode(obj, role); err != nil {
				return nil, err
			}
			rules[kind+" "+obj.GetNamespace()+"/"+obj.GetName()] = role.Rules
		}
	}
	var roles []rbac.Role
	for _, obj := range m.Objects {
		kind := obj.GetKind()
		if kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		binding := &rbacv1.RoleBinding{} // a ClusterRoleBinding has the same fields
		if err := decode(obj, binding); err != nil {
			return nil, err
		}
		namespace := ""
		if binding.RoleRef.Kind == "Role" {
			namespace = binding.Namespace
		}
		bound := rules[binding.RoleRef.Kind+" "+namespace+"/"+binding.RoleRef.Name]
		if len(bound) > 0 && binds(binding, m.User()) {
			roles = append(roles, rbac.Role{Name: binding.RoleRef.Name, Namespace: binding.Namespace, Rules: bound})
		}
	}
	return roles, nil
}

func decode(obj *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return fmt.Errorf("decode %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// binds reports whether a binding has a service account, given by its user name, as a subject.
func binds(binding *rbacv1.RoleBinding, user string) bool {
	for _, s := range binding.Subjects {
		namespace := cmp.Or(s.Namespace, binding.Namespace)
		if s.Kind == rbacv1.ServiceAccountKind && user == serviceaccount.MakeUsername(namespace, s.Name) {
			return true
		}
	}
	return false
}
