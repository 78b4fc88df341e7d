package internal_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"kelson.dev/cmd/kelson/internal/deploy/pack"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/internal/require"
)

// render renders a chart as helm template does, with text/template, sprig and toYaml: make helm
// does it with Helm itself.
func render(t *testing.T, files pack.Files, namespace string, set map[string]any) map[string]map[string]any {
	t.Helper()
	var values map[string]any
	require.NoErrorf(t, yaml.Unmarshal(files["values.yaml"], &values), "values.yaml")
	maps.Copy(values, set)
	funcs := sprig.TxtFuncMap()
	funcs["toYaml"] = func(v any) (string, error) {
		data, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(data), "\n"), err
	}
	objects := map[string]map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, "templates/") || !strings.HasSuffix(name, ".yaml") {
			continue
		}
		parsed, err := template.New(name).Funcs(funcs).Parse(string(files[name]))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, files[name])
		}
		var out bytes.Buffer
		if err := parsed.Execute(&out, map[string]any{"Values": values,
			"Release": map[string]any{"Namespace": namespace}}); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, files[name])
		}
		maps.Copy(objects, decode(t, out.Bytes()))
	}
	return objects
}

// decode returns the objects of a stream of documents by kind, namespace and name.
func decode(t *testing.T, data []byte) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var obj map[string]any
		err := decoder.Decode(&obj)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoErrorf(t, err, "\n%s", data)
		if obj != nil {
			u := unstructured.Unstructured{Object: obj}
			objects[u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName()] = obj
		}
	}
}

// operators are manifests as kustomize builds them, by what is special about them.
var operators = map[string]string{
	"scheduling": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {replicas: 3, template: {spec: {
		nodeSelector: {disk: ssd}, tolerations: [{key: a, operator: Exists}], affinity: {nodeAffinity: {}}, imagePullSecrets: [{name: pull}],
		priorityClassName: system-cluster-critical, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}],
		volumes: [{name: v, emptyDir: {}}], containers: [{name: manager, image: "controller:latest", imagePullPolicy: Always, args: [-v], resources: {limits: {cpu: 1}}}]}}}}`,
	"nothing optional":   `{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {template: {spec: {containers: [{name: manager, image: "controller:latest"}]}}}}`,
	"empty fields":       `{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {replicas: 0, template: {spec: {nodeSelector: {}, tolerations: [], containers: [{name: manager, image: controller, args: [], resources: {}}]}}}}`,
	"a proxy first":      `{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {template: {spec: {containers: [{name: kube-rbac-proxy, image: "proxy:v1", args: [--upstream]}, {name: manager, image: "controller:latest", args: [-v]}]}}}}`,
	"an init container":  `{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {template: {spec: {initContainers: [{name: migrate, image: "controller:latest"}], containers: [{name: manager, image: "controller:latest"}]}}}}`,
	"another name":       `{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {template: {spec: {containers: [{name: manager, image: "quay.example/op@sha256:0123"}]}}}}`,
	"the only container": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {template: {spec: {containers: [{name: operator, image: quay.example/op}]}}}}`,
	"a StatefulSet":      `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: m, namespace: sys}, spec: {template: {spec: {containers: [{name: manager, image: "controller:latest"}]}}}}`,
	"a DaemonSet":        `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: m, namespace: sys}, spec: {template: {spec: {nodeSelector: {a: b}, containers: [{name: manager, image: "controller:latest"}]}}}}`,
	"another workload": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: console, namespace: sys}, spec: {replicas: 2, template: {spec: {containers: [{name: web, image: "web:v1", args: [--web]}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: clean, namespace: sys}, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: clean, image: "controller:latest"}]}}}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {replicas: 1, template: {spec: {containers: [{name: manager, image: "controller:latest"}]}}}}`,
	"namespaces": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {template: {spec: {containers: [{name: manager, image: "controller:latest"}]}}}}
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: c, namespace: sys}, spec: {dnsNames: [hook.sys.svc, hook.sys.svc.cluster.local, sys.svcs.example]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: kube-system}, subjects: [{kind: ServiceAccount, name: m, namespace: sys}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: sys}, subjects: [{kind: ServiceAccount, name: m, namespace: sys}]}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.example.com, annotations: {cert-manager.io/inject-ca-from: sys/c}}, spec: {conversion: {webhook: {clientConfig: {service: {namespace: sys, name: hook}}}}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other}}
---
{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: own, namespace: sys}}`,
}

// A chart renders with its default values what the installer contains, in every field.
func TestChartEqualsInstaller(t *testing.T) {
	for name, text := range operators {
		for _, image := range []string{"", "registry.example:5000/op:v1", "registry.example/op@sha256:4567"} {
			t.Run(name+" "+image, func(t *testing.T) {
				o := operator(t, text)
				o.Image = image
				installer, err := pack.Installer(o)
				require.NoError(t, err)
				want := decode(t, installer)
				files, err := pack.Chart(o)
				require.NoError(t, err)
				got := render(t, files, "sys", nil)
				for key, obj := range got {
					if annotations, _, _ := unstructured.NestedMap(obj, "metadata",
						"annotations"); annotations["helm.sh/resource-policy"] == "keep" {
						unstructured.RemoveNestedField(obj, "metadata", "annotations", "helm.sh/resource-policy")
						if len(annotations) == 1 {
							unstructured.RemoveNestedField(obj, "metadata", "annotations")
						}
					}
					if !reflect.DeepEqual(obj, want[key]) {
						t.Errorf("%s\n the chart has        %v\n the installer has %v", key, obj, want[key])
					}
				}
				for key := range want {
					if got[key] == nil {
						t.Errorf("the chart has no %s", key)
					}
				}
				if image != "" && strings.Contains(string(installer), "controller") {
					t.Errorf("a container does not have the image %s:\n%s", image, installer)
				}
			})
		}
	}
}

// Values change the operator's workload and container, and no other; another namespace replaces the
// project's wherever it stands.
func TestChartValues(t *testing.T) {
	files, err := pack.Chart(operator(t, operators["another workload"]))
	require.NoError(t, err)
	got := render(t, files, "there", map[string]any{"replicas": int64(0), "args": []any{"--new"},
		"nodeSelector": map[string]any{"a": "b"}, "priorityClassName": "high"})
	containers, _, _ := unstructured.NestedSlice(got["Deployment there/m"], "spec", "template", "spec", "containers")
	pod, _, _ := unstructured.NestedMap(got["Deployment there/m"], "spec", "template", "spec")
	replicas, _, _ := unstructured.NestedFloat64(got["Deployment there/m"], "spec", "replicas")
	if len(containers) != 1 || !reflect.DeepEqual(containers[0].(map[string]any)["args"], []any{"--new"}) ||
		replicas != 0 || pod["priorityClassName"] != "high" {
		t.Errorf("the operator has %v", got["Deployment there/m"])
	}
	if other, _, _ := unstructured.NestedMap(got["Deployment there/console"], "spec", "template",
		"spec"); other["nodeSelector"] != nil ||
		!reflect.DeepEqual(other["containers"].([]any)[0].(map[string]any)["args"], []any{"--web"}) {
		t.Errorf("the other workload has %v", other)
	}

	files, err = pack.Chart(operator(t, operators["namespaces"]))
	require.NoError(t, err)
	got = render(t, files, "there", nil)
	names, _, _ := unstructured.NestedStringSlice(got["Certificate there/c"], "spec", "dnsNames")
	if !slices.Equal(names, []string{"hook.there.svc", "hook.there.svc.cluster.local", "sys.svcs.example"}) {
		t.Errorf("the certificate is for %v", names)
	}
	text, err := yaml.Marshal(got)
	if err != nil || strings.Contains(string(text), "namespace: sys") || strings.Contains(string(text), "sys/c") ||
		got["RoleBinding kube-system/b"] == nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// An image that cannot be set is an error.
func TestImageOfUnknownContainer(t *testing.T) {
	o := operator(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: sys}, spec: {template: {spec: {containers: [{name: a, image: "a:v1"}, {name: b, image: "b:v1"}]}}}}`)
	o.Image = "registry.example/op:v1"
	for _, make := range []func() error{
		func() error { _, err := pack.Installer(o); return err },
		func() error { _, err := pack.Chart(o); return err },
		func() error { _, err := pack.Bundle(o); return err },
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(),
			"a of m (a:v1), b of m (b:v1): give it the image controller:latest, or the name manager") {
			t.Errorf("the error is %v", err)
		}
	}
}

func operator(t *testing.T, text string) pack.Operator {
	t.Helper()
	o := pack.Operator{Name: "op", Version: "0.1.0"}
	for _, document := range strings.Split(text, "\n---\n") {
		obj := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &obj.Object))
		o.Objects = append(o.Objects, obj)
	}
	_, err := (manifests.Objects)(o.Objects).YAML()
	require.NoError(t, err)
	return o
}
