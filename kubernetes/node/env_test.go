package node

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objects implements sources with the data of "configmap/name" and "secret/name".
type objects map[string]map[string]string

func (o objects) configMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	data, ok := o["configmap/"+name]
	if !ok {
		return nil, fmt.Errorf("configmap %q not found", name)
	}
	return &corev1.ConfigMap{Data: data}, nil
}

func (o objects) secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	data, ok := o["secret/"+name]
	if !ok {
		return nil, fmt.Errorf("secret %q not found", name)
	}
	s := &corev1.Secret{Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s, nil
}

func TestEnvironment(t *testing.T) {
	from := objects{"configmap/c": {"A": "from-c", "not a name=": "x", "B": "b"}, "secret/s": {"key": "hidden"}}
	yes := true
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Labels: map[string]string{"app.io/x": "l"},
			Annotations: map[string]string{"y": "n"}},
		Spec:   corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "sa"},
		Status: corev1.PodStatus{PodIP: "10.0.0.1", HostIP: "127.0.0.1"},
	}
	for _, test := range []struct {
		name      string
		container corev1.Container
		want      string // NAME=value in order, or the error
	}{
		{"plain, in order, the last wins", corev1.Container{Env: []corev1.EnvVar{{Name: "Z", Value: "1"},
			{Name: "A", Value: "2"}, {Name: "Z", Value: "3"}}}, "Z=3 A=2"},
		{"expansion uses earlier variables", corev1.Container{Env: []corev1.EnvVar{
			{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)-$(C)-$$(A)-$A"}, {Name: "C", Value: "$(B)"}}},
			"A=1 B=1-$(C)-$(A)-$A C=1-$(C)-$(A)-$A"},
		{"all of a config map", corev1.Container{EnvFrom: []corev1.EnvFromSource{
			{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("c")}}},
			Env: []corev1.EnvVar{{Name: "P_A", Value: "own"}}}, "P_A=own P_B=b"},
		{"all of a secret", corev1.Container{EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("s")}}}}, "key=hidden"},
		{"keys", corev1.Container{Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("c"), Key: "B"}}},
			{Name: "S", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("s"), Key: "key"}}},
			{Name: "N", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("s"), Key: "no", Optional: &yes}}},
			{Name: "O", ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("no"), Key: "no",
					Optional: &yes}}}}}, "A=b S=hidden"},
		{"fields", corev1.Container{Env: []corev1.EnvVar{{Name: "N", ValueFrom: field("metadata.name")},
			{Name: "NS", ValueFrom: field("metadata.namespace")},
			{Name: "U", ValueFrom: field("metadata.uid")}, {Name: "L", ValueFrom: field("metadata.labels['app.io/x']")},
			{Name: "AN", ValueFrom: field("metadata.annotations['y']")},
			{Name: "NODE", ValueFrom: field("spec.nodeName")},
			{Name: "SA", ValueFrom: field("spec.serviceAccountName")},
			{Name: "IP", ValueFrom: field("status.podIP")}, {Name: "H", ValueFrom: field("status.hostIP")}}},
			"N=p NS=ns U=u L=l AN=n NODE=node-1 SA=sa IP=10.0.0.1 H=127.0.0.1"},
		{"resources", corev1.Container{Resources: corev1.ResourceRequirements{Requests: list("300m", "1Gi", ""),
			Limits: list("1500m", "", "")}, Env: []corev1.EnvVar{
			{Name: "R", ValueFrom: &corev1.EnvVarSource{
				ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu",
					Divisor: list("1m", "", "")["cpu"]}}},
			{Name: "L", ValueFrom: &corev1.EnvVarSource{
				ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
			{Name: "M", ValueFrom: &corev1.EnvVarSource{
				ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory",
					Divisor: list("", "1Mi", "")["memory"]}}}}},
			"R=300 L=2 M=8192"},
		{"missing config map", corev1.Container{
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: ref("no")}}}}, `configmap "no" not found`},
		{"missing key", corev1.Container{Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("c"), Key: "no"}}}}},
			"couldn't find key no in ConfigMap ns/c"},
		{"missing secret", corev1.Container{Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("no"), Key: "k"}}}}},
			`secret "no" not found`},
	} {
		t.Run(test.name, func(t *testing.T) {
			env, err := environment(t.Context(), from, pod, &test.container, list("4", "8Gi", ""), nil)
			var words []string
			for _, e := range env {
				words = append(words, e.Name+"="+e.Value)
			}
			got := strings.Join(words, " ")
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "$", "$$", "$(", "$()", "$(A)", "$$(A)", "$(B)", "a$(A)b$", "$(A$(A))", "$)"} {
		f.Add(seed)
	}
	values := map[string]string{"A": "$(A)", "": "empty"}
	f.Fuzz(func(t *testing.T, text string) {
		got := expand(text, values)
		if !strings.Contains(text, "$") && got != text {
			t.Errorf("expand(%q) = %q", text, got)
		}
	})
}

func list(cpu, memory, pods string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{"cpu": cpu, "memory": memory, "pods": pods} {
		if text != "" {
			l[name] = resource.MustParse(text)
		}
	}
	return l
}
