package pack

import (
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/cmd/kelson/internal/manifests"
)

// Bundle returns a bundle for the Operator Lifecycle Manager in the format registry+v1: manifests,
// metadata and the Dockerfile of its image. The ClusterServiceVersion contains the Deployment and
// its permissions; the definitions and other objects are separate files.
func Bundle(o Operator) (Files, error) {
	objects, manager, err := o.withImage()
	if err != nil {
		return nil, err
	}
	if kind := manager.Workload.GetKind(); kind != "Deployment" {
		return nil, fmt.Errorf("package as an OLM bundle: the operator runs in a %s, and OLM installs only Deployments",
			kind)
	}
	if err := withoutServers(objects); err != nil {
		return nil, err
	}
	if kind := manager.Workload.GetKind(); kind != "Deployment" {
		return nil, fmt.Errorf("package as an OLM bundle: OLM runs operators as Deployments, not as a %s: use kelson package helm or installer", kind)
	}
	files := Files{}
	var deployments, permissions, clusterPermissions, owned, hooks []any
	roles, clusterRoles := rulesOf(objects)
	for _, obj := range objects {
		switch kind := obj.GetKind(); kind {
		case "Namespace", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy":
			// OLM creates the account and its bindings in the namespace where the operator is
			// installed.
		case "Deployment":
			deployments = append(deployments, map[string]any{"name": obj.GetName(), "label": obj.GetLabels(),
				"spec": obj.Object["spec"]})
		case "CustomResourceDefinition":
			owned = append(owned, ownedBy(obj)...)
			// OLM sets it from the webhook definitions below
			unstructured.RemoveNestedField(obj.Object, "spec", "conversion")
			if err := files.add("manifests/"+obj.GetName()+".crd.yaml", obj); err != nil {
				return nil, err
			}
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			hooks = append(hooks, admissionHooks(obj, manager.Workload.GetName())...)
		case "ClusterRoleBinding":
		case "ClusterRole":
			// bound roles are in the ClusterServiceVersion
			if !clusterRoles.bound[obj.GetName()] && !certifies(obj.GetName()) {
				if err := files.add("manifests/"+fileName(obj), obj); err != nil {
					return nil, err
				}
			}
		default:
			obj.SetNamespace("")
			if err := files.add("manifests/"+fileName(obj), obj); err != nil {
				return nil, err
			}
		}
	}
	for account, rules := range roles.rules {
		permissions = append(permissions, map[string]any{"serviceAccountName": account, "rules": rules})
	}
	for account, rules := range clusterRoles.rules {
		clusterPermissions = append(clusterPermissions, map[string]any{"serviceAccountName": account, "rules": rules})
	}
	hooks = append(hooks, conversionHooks(o.Objects, manager.Workload.GetName())...)
	examples, err := json.Marshal(append(manifests.Objects{}, o.Samples...))
	if err != nil {
		return nil, err
	}
	spec := map[string]any{
		"displayName": o.Name, "description": "The operator " + o.Name + ".", "version": o.Version, "maturity": "alpha",
		"provider":       map[string]any{"name": o.Name},
		"minKubeVersion": "1.30.0",
		"installModes": []any{
			map[string]any{"type": "OwnNamespace", "supported": false},
			map[string]any{"type": "SingleNamespace", "supported": false},
			map[string]any{"type": "MultiNamespace", "supported": false},
			map[string]any{"type": "AllNamespaces", "supported": true},
		},
		"install": map[string]any{"strategy": "deployment", "spec": map[string]any{
			"deployments": deployments, "permissions": permissions, "clusterPermissions": clusterPermissions}},
		"customresourcedefinitions": map[string]any{"owned": owned},
	}
	if len(hooks) > 0 {
		spec["webhookdefinitions"] = hooks
	}
	csv := map[string]any{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": map[string]any{"name": o.Name + ".v" + o.Version,
			"annotations": map[string]any{"alm-examples": string(examples), "capabilities": "Basic Install"}},
		"spec": spec,
	}
	if files["manifests/"+o.Name+".clusterserviceversion.yaml"], err = encode(csv); err != nil {
		return nil, err
	}
	channel := "candidate-" + semver.Major("v"+o.Version)
	labels := [][2]string{
		{"operators.operatorframework.io.bundle.mediatype.v1", "registry+v1"},
		{"operators.operatorframework.io.bundle.manifests.v1", "manifests/"},
		{"operators.operatorframework.io.bundle.metadata.v1", "metadata/"},
		{"operators.operatorframework.io.bundle.package.v1", o.Name},
		{"operators.operatorframework.io.bundle.channels.v1", channel},
		{"operators.operatorframework.io.bundle.channel.default.v1", channel},
	}
	annotations, dockerfile := "annotations:\n", "FROM scratch\n"
	for _, l := range labels {
		annotations += fmt.Sprintf("  %s: %s\n", l[0], l[1])
		dockerfile += fmt.Sprintf("LABEL %s=%s\n", l[0], l[1])
	}
	files["metadata/annotations.yaml"] = []byte(annotations)
	files["bundle.Dockerfile"] = []byte(dockerfile + "COPY manifests /manifests/\nCOPY metadata /metadata/\n")
	return files, nil
}

// withoutServers returns an error if the objects are those of a custom API server.
func withoutServers(objects manifests.Objects) error {
	for _, obj := range objects {
		switch obj.GetKind() {
		case "APIService", "PersistentVolumeClaim":
			return fmt.Errorf("package as an OLM bundle: OLM does not install a %s, such as %s: use kelson package helm or installer", obj.GetKind(), obj.GetName())
		}
	}
	return nil
}

func (f Files) add(name string, obj *unstructured.Unstructured) error {
	data, err := encode(obj.Object)
	if err != nil {
		return err
	}
	if _, twice := f[name]; twice {
		return fmt.Errorf("two objects have the same file name %s", name)
	}
	f[name] = data
	return nil
}

// granted holds the rules of roles by the service account to which they are bound.
type granted struct {
	rules map[string][]any
	bound map[string]bool // names of roles
}

// rulesOf returns the rules granted in the operator's namespace and in the whole cluster.
func rulesOf(objects []*unstructured.Unstructured) (roles, clusterRoles granted) {
	roles, clusterRoles = granted{map[string][]any{}, map[string]bool{}}, granted{map[string][]any{}, map[string]bool{}}
	rulesByRole := map[string][]any{}
	for _, obj := range objects {
		if kind := obj.GetKind(); kind == "Role" || kind == "ClusterRole" {
			rules, _, _ := unstructured.NestedSlice(obj.Object, "rules")
			rulesByRole[kind+"/"+obj.GetName()] = rules
		}
	}
	for _, obj := range objects {
		if certifies(obj.GetName()) {
			continue
		}
		to := roles
		if obj.GetKind() == "ClusterRoleBinding" {
			to = clusterRoles
		} else if obj.GetKind() != "RoleBinding" {
			continue
		}
		kind, _, _ := unstructured.NestedString(obj.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(obj.Object, "roleRef", "name")
		subjects, _, _ := unstructured.NestedSlice(obj.Object, "subjects")
		for _, s := range subjects {
			if s, ok := s.(map[string]any); ok && s["kind"] == "ServiceAccount" {
				account, _ := s["name"].(string)
				to.rules[account] = append(to.rules[account], rulesByRole[kind+"/"+name]...)
				to.bound[name] = true
			}
		}
	}
	return roles, clusterRoles
}

// certifies reports whether the name is that of a role or binding with which an operator creates
// and publishes the certificate of its webhooks. OLM provides the certificate where the operator
// looks for it.
func certifies(name string) bool {
	name = strings.TrimSuffix(name, "binding")
	return strings.HasSuffix(name, "-webhook-role") || strings.HasSuffix(name, "-conversion-role")
}

func ownedBy(crd *unstructured.Unstructured) []any {
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var all []any
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok {
			description, _, _ := unstructured.NestedString(v, "schema", "openAPIV3Schema", "description")
			all = append(all, map[string]any{"name": crd.GetName(), "kind": kind, "version": v["name"],
				"displayName": kind, "description": description})
		}
	}
	return all
}

// admissionHooks returns the webhook definitions of a configuration in OLM's format.
func admissionHooks(config *unstructured.Unstructured, deployment string) []any {
	list, _, _ := unstructured.NestedSlice(config.Object, "webhooks")
	var all []any
	for _, item := range list {
		hook, ok := item.(map[string]any)
		if !ok {
			continue
		}
		path, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "path")
		definition := map[string]any{
			"type": strings.TrimSuffix(config.GetKind(), "Configuration"), "generateName": hook["name"],
			"deploymentName": deployment, "webhookPath": path,
			"containerPort": int64(443), "targetPort": int64(9443),
		}
		for _, key := range []string{"admissionReviewVersions", "failurePolicy", "sideEffects", "rules",
			"objectSelector", "matchPolicy", "timeoutSeconds", "reinvocationPolicy"} {
			if v, ok := hook[key]; ok {
				definition[key] = v
			}
		}
		all = append(all, definition)
	}
	return all
}

func conversionHooks(objects []*unstructured.Unstructured, deployment string) []any {
	var crds []any
	for _, obj := range objects {
		if strategy, _, _ := unstructured.NestedString(obj.Object, "spec", "conversion",
			"strategy"); strategy == "Webhook" {
			crds = append(crds, obj.GetName())
		}
	}
	if len(crds) == 0 {
		return nil
	}
	return []any{map[string]any{
		"type": "ConversionWebhook", "generateName": "convert.kelson.dev", "deploymentName": deployment,
		"webhookPath":   "/convert",
		"containerPort": int64(443), "targetPort": int64(9443), "admissionReviewVersions": []any{"v1"},
		"sideEffects": "None", "conversionCRDs": crds,
	}}
}
