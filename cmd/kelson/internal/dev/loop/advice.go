package loop

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/operator/client"
	"kelson.dev/toolchain/similar"
)

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// advice returns the next step after the cluster refused an object, or "" if the error says all.
func (l *Loop) advice(ctx context.Context, obj *unstructured.Unstructured, err error) string {
	return manifests.Advice(obj, err, func() *unstructured.Unstructured {
		kind := obj.GroupVersionKind()
		mapping, err := l.cfg.Client.Mapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return nil
		}
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(definitionKind)
		if l.cfg.Client.Get(ctx, client.Key{Name: mapping.Resource.GroupResource().String()}, crd) != nil {
			return nil
		}
		return crd
	})
}

// unserved explains that the cluster does not serve a kind: it serves another version, or other
// kinds of the group, or the definition is missing.
func (l *Loop) unserved(ctx context.Context, kind schema.GroupVersionKind) string {
	if mapping, err := l.cfg.Client.Mapper().RESTMapping(kind.GroupKind()); err == nil {
		return fmt.Sprintf("%s of %s: the cluster serves %s: change its apiVersion", kind.Kind, kind.GroupVersion(),
			mapping.GroupVersionKind.GroupVersion())
	}
	text := kind.GroupKind().String() + ", which the cluster does not serve"
	kinds := l.kindsOf(ctx, kind.Group)
	if near := similar.Nearest(kind.Kind, kinds); near != "" {
		return text + "; did you mean " + near + "?"
	}
	if len(kinds) > 0 {
		return fmt.Sprintf("%s: the group has %s", text, strings.Join(kinds, ", "))
	}
	return text + ": --definitions installs its definition"
}

// kindsOf returns the custom kinds of a group that the cluster serves.
func (l *Loop) kindsOf(ctx context.Context, group string) (kinds []string) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(definitionKind)
	if l.cfg.Client.List(ctx, list) != nil {
		return nil
	}
	for _, crd := range list.Items {
		if of, _, _ := unstructured.NestedString(crd.Object, "spec", "group"); of == group {
			kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// hint logs what an operator that is not ready may wait for: Secrets and ConfigMaps of its pod that
// do not exist, and resources that its roles name and the cluster does not serve. Their definitions
// can be those of another operator, or its own, which its kustomization does not list.
func (l *Loop) hint(ctx context.Context, pod *corev1.PodSpec, namespace string, objects manifests.Objects) {
	for _, ref := range references(pod) {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.kind))
		if err := l.cfg.Client.Get(ctx, client.Key{Namespace: namespace, Name: ref.name}, obj); apierrors.IsNotFound(err) {
			l.cfg.Log.Printf("manifests", "the operator's pod needs %s, which does not exist: %s", ref, ref.create(namespace))
		}
	}
	missing := unservedInRoles(objects, l.cfg.Client.Mapper())
	if len(missing) == 0 {
		return
	}
	own, _ := manifests.Folder(filepath.Join(l.cfg.Project.Dir, "config", "crd", "bases"))
	l.cfg.Log.Printf("manifests", "the operator's roles name %s, which the cluster does not serve%s",
		strings.Join(missing, ", "), nextDefinition(missing, own))
}

// nextDefinition returns where the definitions of missing resources are: in own, or elsewhere.
func nextDefinition(missing []string, own manifests.Objects) string {
	unlisted := slices.DeleteFunc(slices.Clone(missing), func(name string) bool {
		return !slices.ContainsFunc(own, func(o *unstructured.Unstructured) bool { return o.GetName() == name })
	})
	if len(unlisted) > 0 {
		return fmt.Sprintf(": config/crd/bases defines %s: list it in config/crd/kustomization.yaml",
			strings.Join(unlisted, ", "))
	}
	return ": if the operator needs them, --definitions installs their definitions"
}

// unservedInRoles returns the resources in the rules of roles that no served version has.
func unservedInRoles(objects manifests.Objects, mapper meta.RESTMapper) (missing []string) {
	for _, obj := range objects {
		var role rbacv1.ClusterRole // a Role has the same rules
		if kind := obj.GetKind(); kind != "ClusterRole" && kind != "Role" ||
			runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role) != nil {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					resource, _, _ = strings.Cut(resource, "/")
					if strings.Contains(group+resource, "*") {
						continue
					}
					found := schema.GroupResource{Group: group, Resource: resource}
					if _, err := mapper.ResourceFor(found.WithVersion("")); meta.IsNoMatchError(err) {
						missing = append(missing, found.String())
					}
				}
			}
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// A reference of a pod names a Secret or ConfigMap without which it does not start.
type reference struct {
	kind, name, key string // key is "" if the pod uses all keys
}

func (r reference) String() string { return "the " + r.kind + " " + r.name }

// create returns the command that creates the object.
func (r reference) create(namespace string) string {
	kind := "configmap"
	if r.kind == "Secret" {
		kind = "secret generic"
	}
	return fmt.Sprintf("kubectl create %s %s -n %s --from-literal=%s=VALUE", kind, r.name, namespace, cmp.Or(r.key, "KEY"))
}

// references returns the Secrets and ConfigMaps that a pod needs, each once.
func references(pod *corev1.PodSpec) (all []reference) {
	add := func(kind, name, key string, optional *bool) {
		same := func(r reference) bool { return r.kind == kind && r.name == name }
		if name != "" && (optional == nil || !*optional) && !slices.ContainsFunc(all, same) {
			all = append(all, reference{kind, name, key})
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, env := range c.Env {
			if env.ValueFrom == nil {
				continue
			}
			if from := env.ValueFrom.SecretKeyRef; from != nil {
				add("Secret", from.Name, from.Key, from.Optional)
			}
			if from := env.ValueFrom.ConfigMapKeyRef; from != nil {
				add("ConfigMap", from.Name, from.Key, from.Optional)
			}
		}
		for _, env := range c.EnvFrom {
			if from := env.SecretRef; from != nil {
				add("Secret", from.Name, "", from.Optional)
			}
			if from := env.ConfigMapRef; from != nil {
				add("ConfigMap", from.Name, "", from.Optional)
			}
		}
	}
	for _, volume := range pod.Volumes {
		if from := volume.Secret; from != nil {
			add("Secret", from.SecretName, "", from.Optional)
		}
		if from := volume.ConfigMap; from != nil {
			add("ConfigMap", from.Name, "", from.Optional)
		}
	}
	return all
}
