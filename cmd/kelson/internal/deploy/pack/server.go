package pack

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/cmd/kelson/internal/manifests"
)

// AuthorityAnnotation marks the Secret of the certificate authority of a custom API server.
const AuthorityAnnotation = "kelson.dev/authority"

// errNoAuthority reports that the manifests of a custom API server have no Secret with
// AuthorityAnnotation.
var errNoAuthority = errors.New(`config/default has no Secret with the annotation ` + AuthorityAnnotation + `: "true"`)

// namespaceVariable is the environment variable with the namespace of the API server's pod.
const namespaceVariable = "POD_NAMESPACE"

// SelfSigned changes the manifests so that the API server creates its certificate authority when it
// runs, and writes it to its APIServices: a package cannot contain a private key. The Deployment
// gets the flag --authority-secret instead of the mounted Secret, and the service account gets the
// permissions that this needs. The names in its arguments follow the namespace in which it is
// installed.
func SelfSigned(objects manifests.Objects) (manifests.Objects, error) {
	var secret *unstructured.Unstructured
	var services []any
	var all manifests.Objects
	for _, obj := range objects {
		obj = obj.DeepCopy()
		all = append(all, obj)
		switch {
		case obj.GetKind() == "Secret" && obj.GetAnnotations()[AuthorityAnnotation] == "true":
			secret = obj
		case obj.GetKind() == "APIService":
			services = append(services, obj.GetName())
		}
	}
	if secret == nil {
		return nil, errNoAuthority
	}
	manager, err := all.Manager()
	if err != nil {
		return nil, err
	}
	deployment := manager.Workload
	if err := certifyItself(manager, secret); err != nil {
		return nil, fmt.Errorf("change deployment %s: %w", deployment.GetName(), err)
	}
	account, _, _ := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "serviceAccountName")
	// before the Deployment, so that its first pod has the permissions
	at := slices.Index(all, deployment)
	return slices.Insert(all, at, authorityRoles(deployment.GetName(), account, secret, services)...), nil
}

// certifyItself changes the container of an API server so that the server reads and writes its
// Secret through the API instead of mounting it.
func certifyItself(manager *manifests.Manager, secret *unstructured.Unstructured) error {
	deployment, container := manager.Workload, manager.Container
	found, _, err := unstructured.NestedFieldNoCopy(deployment.Object, manifests.PodSpec(deployment.GetKind())...)
	if err != nil {
		return err
	}
	pod, _ := found.(map[string]any)
	volumes, _ := pod["volumes"].([]any)
	volume := ""
	pod["volumes"] = slices.DeleteFunc(volumes, func(v any) bool {
		volumeFields, _ := v.(map[string]any)
		if name, _, _ := unstructured.NestedString(volumeFields, "secret", "secretName"); name != secret.GetName() {
			return false
		}
		volume, _ = volumeFields["name"].(string)
		return true
	})
	mounts, _ := container["volumeMounts"].([]any)
	container["volumeMounts"] = slices.DeleteFunc(mounts, func(m any) bool {
		mount, _ := m.(map[string]any)
		return mount["name"] == volume
	})
	namespace, variable := deployment.GetNamespace(), "$("+namespaceVariable+")"
	args, _ := container["args"].([]any)
	args = slices.DeleteFunc(args, func(arg any) bool { return strings.HasPrefix(fmt.Sprint(arg), "--cert-dir") })
	for i, arg := range args {
		if name, ok := strings.CutPrefix(fmt.Sprint(arg), "--serving-name="); ok {
			args[i] = "--serving-name=" + strings.Replace(name, "."+namespace+".", "."+variable+".", 1)
		}
	}
	container["args"] = append(args, "--authority-secret="+variable+"/"+secret.GetName())
	env, _ := container["env"].([]any)
	container["env"] = append(env, map[string]any{"name": namespaceVariable,
		"valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.namespace"}}})
	return nil
}

// authorityRoles allow an account to fill the Secret, and to write to the APIServices.
func authorityRoles(name, account string, secret *unstructured.Unstructured, services []any) (all manifests.Objects) {
	namespace := secret.GetNamespace()
	add := func(kind, suffix, namespace string, content map[string]any) {
		obj := &unstructured.Unstructured{Object: content}
		obj.SetAPIVersion("rbac.authorization.k8s.io/v1")
		obj.SetKind(kind)
		obj.SetName(name + suffix)
		obj.SetNamespace(namespace)
		all = append(all, obj)
	}
	grant := func(kind, suffix, namespace string, rule map[string]any) {
		add(kind, suffix, namespace, map[string]any{"rules": []any{rule}})
		add(kind+"Binding", suffix, namespace, map[string]any{
			"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name + suffix},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": account,
				"namespace": secret.GetNamespace()}},
		})
	}
	grant("Role", "-authority", namespace, map[string]any{
		"apiGroups": []any{""}, "resources": []any{"secrets"}, "resourceNames": []any{secret.GetName()},
		"verbs": []any{"get", "update"}})
	grant("ClusterRole", "-apiservices", "", map[string]any{
		"apiGroups": []any{"apiregistration.k8s.io"}, "resources": []any{"apiservices"}, "resourceNames": services,
		"verbs": []any{"get", "patch"}})
	return all
}
