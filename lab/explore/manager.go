package explore

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/operatortest/manifest"
)

// managerVariables returns the variables that the Deployment of a project's manager sets, such as
// WATCH_NAMESPACE of operator-sdk. Those of the explorer's own environment have precedence, so they
// are not among them, and neither are those with values of Secrets and ConfigMaps, which the user
// may set there.
func managerVariables(dir, namespace string) (variables []string) {
	all, err := manifest.Read(filepath.Join(dir, "config", "manager"))
	if err != nil {
		return nil // the folder may be missing, or have templates
	}
	for _, m := range all {
		if m.Object.GetKind() != "Deployment" {
			continue
		}
		var deployment appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, &deployment); err != nil {
			continue // of another version
		}
		pod := corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
		pod.Namespace = cmp.Or(namespace, metav1.NamespaceDefault)
		pod.Name = deployment.Name
		if container := managerOf(pod.Spec.Containers); container != nil {
			for _, v := range container.Env {
				value, known := valueOf(v, &pod)
				if _, set := os.LookupEnv(v.Name); known && !set {
					variables = append(variables, v.Name+"="+value)
				}
			}
		}
	}
	return variables
}

// managerOf returns the container with the operator: other containers of its Pod are proxies.
func managerOf(containers []corev1.Container) *corev1.Container {
	if i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "manager" }); i >= 0 {
		return &containers[i]
	}
	if len(containers) == 1 {
		return &containers[0]
	}
	return nil
}

// valueOf returns the value of a variable, and whether the manifest has it.
func valueOf(v corev1.EnvVar, pod *corev1.Pod) (value string, known bool) {
	switch {
	case v.ValueFrom == nil:
		return v.Value, true
	case v.ValueFrom.FieldRef == nil:
		return "", false
	}
	switch v.ValueFrom.FieldRef.FieldPath {
	case "metadata.namespace":
		return pod.Namespace, true
	case "metadata.name":
		return pod.Name, true
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, true
	}
	return "", false
}
