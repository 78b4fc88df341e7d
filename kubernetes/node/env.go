package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// sources reads the objects that an environment refers to.
type sources interface {
	configMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// environment resolves a container's env and envFrom in the kubelet's order: envFrom first; later
// values replace earlier ones; $(NAME) in a value refers to the variables before it. Errors are
// messages for CreateContainerConfigError. links are variables that others can refer to and
// replace.
func environment(ctx context.Context, from sources, pod *corev1.Pod, container *corev1.Container,
	allocatable corev1.ResourceList, links []corev1.EnvVar) ([]corev1.EnvVar, error) {
	values := map[string]string{}
	for _, link := range links {
		values[link.Name] = link.Value
	}
	seen := map[string]bool{}
	var names []string
	set := func(name, value string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		values[name] = value
	}
	for i := range container.EnvFrom {
		if err := envFrom(ctx, from, pod.Namespace, &container.EnvFrom[i], set); err != nil {
			return nil, err
		}
	}
	for i := range container.Env {
		env := &container.Env[i]
		value, ok, err := expand(env.Value, values), true, error(nil)
		if env.ValueFrom != nil {
			value, ok, err = valueFrom(ctx, from, pod, container, env.ValueFrom, allocatable)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			set(env.Name, value)
		}
	}
	for _, link := range links {
		set(link.Name, values[link.Name])
	}
	result := make([]corev1.EnvVar, 0, len(names))
	for _, name := range names {
		result = append(result, corev1.EnvVar{Name: name, Value: values[name]})
	}
	return result, nil
}

// envFrom sets a variable for every key of a config map or secret that is a valid variable name.
func envFrom(ctx context.Context, from sources, namespace string, source *corev1.EnvFromSource,
	set func(name, value string)) error {
	data := map[string]string{}
	switch {
	case source.ConfigMapRef != nil:
		object, err := from.configMap(ctx, namespace, source.ConfigMapRef.Name)
		if err != nil {
			return ifRequired(err, source.ConfigMapRef.Optional)
		}
		maps.Copy(data, object.Data)
	case source.SecretRef != nil:
		object, err := from.secret(ctx, namespace, source.SecretRef.Name)
		if err != nil {
			return ifRequired(err, source.SecretRef.Optional)
		}
		for key, value := range object.Data {
			data[key] = string(value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if name := source.Prefix + key; len(validation.IsEnvVarName(name)) == 0 {
			set(name, data[key])
		}
	}
	return nil
}

// valueFrom resolves one reference. ok is false if an optional reference can't be resolved.
func valueFrom(ctx context.Context, from sources, pod *corev1.Pod, container *corev1.Container,
	source *corev1.EnvVarSource, allocatable corev1.ResourceList) (value string, ok bool, err error) {
	switch {
	case source.FieldRef != nil:
		value, err = podField(pod, source.FieldRef.FieldPath)
		return value, err == nil, err
	case source.ResourceFieldRef != nil:
		value, err = resourceField(pod, container, source.ResourceFieldRef, allocatable)
		return value, err == nil, err
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		object, err := from.configMap(ctx, pod.Namespace, ref.Name)
		if err != nil {
			return "", false, ifRequired(err, ref.Optional)
		}
		if value, ok = object.Data[ref.Key]; !ok {
			err = ifRequired(fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, pod.Namespace, ref.Name),
				ref.Optional)
		}
		return value, ok, err
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		object, err := from.secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			return "", false, ifRequired(err, ref.Optional)
		}
		bytes, ok := object.Data[ref.Key]
		if !ok {
			err = ifRequired(fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, pod.Namespace, ref.Name),
				ref.Optional)
		}
		return string(bytes), ok, err
	}
	return "", false, errors.New("unsupported source of an environment variable")
}

// ifRequired drops the error of an optional reference.
func ifRequired(err error, optional *bool) error {
	if optional != nil && *optional {
		return nil
	}
	return err
}

// podField returns the value of a downward API field that environment variables can refer to.
func podField(pod *corev1.Pod, path string) (string, error) {
	if key, ok := subscript(path, "metadata.labels"); ok {
		return pod.Labels[key], nil
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return pod.Annotations[key], nil
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return pod.Status.HostIP, nil
	case "status.podIP", "status.podIPs":
		return pod.Status.PodIP, nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// subscript returns the key of a path like metadata.labels['key'].
func subscript(path, field string) (string, bool) {
	rest, ok := strings.CutPrefix(path, field+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// resourceField returns a container's request or limit in units of the divisor, rounded up. Without
// a limit, it returns the node's allocatable amount. Source: the documentation of the downward API.
func resourceField(pod *corev1.Pod, container *corev1.Container, ref *corev1.ResourceFieldSelector,
	allocatable corev1.ResourceList) (string, error) {
	if ref.ContainerName != "" && ref.ContainerName != container.Name {
		if container = findContainer(pod, ref.ContainerName); container == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var quantity resource.Quantity
	switch kind {
	case "limits":
		var ok bool
		if quantity, ok = container.Resources.Limits[corev1.ResourceName(name)]; !ok {
			quantity = allocatable[corev1.ResourceName(name)]
		}
	case "requests":
		quantity = container.Resources.Requests[corev1.ResourceName(name)]
	default:
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	amount, unit := quantity.Value(), divisor.Value()
	if name == string(corev1.ResourceCPU) {
		amount, unit = quantity.MilliValue(), divisor.MilliValue()
	}
	return strconv.FormatInt((amount+unit-1)/unit, 10), nil
}

// findContainer returns the container of any type with a name, or nil if there is none.
func findContainer(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			spec := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			return &spec
		}
	}
	return nil
}

// expand replaces $(NAME) by the value of NAME. $$ is a dollar sign, and references to unknown
// names stay as they are.
// Source: the documentation of the fields command and args.
func expand(text string, values map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		text = after
		if rest, ok := strings.CutPrefix(text, "$"); ok {
			out.WriteByte('$')
			text = rest
			continue
		}
		name, rest, ok := strings.Cut(text, ")")
		if !ok || !strings.HasPrefix(name, "(") {
			out.WriteByte('$')
			continue
		}
		value, known := values[name[1:]]
		if !known {
			value = "$" + name + ")"
		}
		out.WriteString(value)
		text = rest
	}
}

// expandAll expands each of texts.
func expandAll(texts []string, env []corev1.EnvVar) []string {
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = expand(text, values)
	}
	return out
}
