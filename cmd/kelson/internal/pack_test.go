package internal_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kelson.dev/cmd/kelson/internal/deploy/pack"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// welcome is a small operator.
func welcome(t *testing.T) pack.Operator {
	t.Helper()
	o := pack.Operator{Name: "welcome", Version: "0.1.0", Image: "registry.example:5000/welcome:v1"}
	for _, text := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: welcome-system}}",
		`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: as.example.com}, spec: {group: example.com,
			names: {kind: A}, versions: [{name: v1, schema: {openAPIV3Schema: {description: "not a {{ template }}"}}}]}}`,
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: manager, namespace: welcome-system}}",
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: own}, rules: [{apiGroups: [example.com], resources: [as], verbs: [get]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: viewer}, rules: []}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: own}, roleRef: {kind: ClusterRole, name: own},
			subjects: [{kind: ServiceAccount, name: manager, namespace: welcome-system}]}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: manager, namespace: welcome-system}, spec: {replicas: 1, selector: {matchLabels: {a: b}},
			template: {spec: {serviceAccountName: manager, containers: [{name: manager, image: "controller:latest", args: [--leader-elect], resources: {limits: {cpu: 1}}}]}}}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: hooks}, webhooks: [{name: a.example.com,
			clientConfig: {service: {name: s, namespace: welcome-system, path: /mutate}}, failurePolicy: Fail}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: welcome-webhook-role}, rules: [{apiGroups: [admissionregistration.k8s.io],
			resources: [mutatingwebhookconfigurations], verbs: [patch]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: welcome-webhook-rolebinding}, roleRef: {kind: ClusterRole,
			name: welcome-webhook-role}, subjects: [{kind: ServiceAccount, name: manager, namespace: welcome-system}]}`,
	} {
		obj := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &obj.Object))
		o.Objects = append(o.Objects, obj)
	}
	return o
}

func wantContains(t *testing.T, files pack.Files, name string, parts ...string) {
	t.Helper()
	text, ok := files[name]
	if !ok {
		t.Fatalf("there is no %s among %v", name, slices.Sorted(maps.Keys(files)))
	}
	for _, part := range parts {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s lacks %q:\n%s", name, part, text)
		}
	}
}

// The chart has values for the settings of the operator, and Helm creates its namespace.
func TestChart(t *testing.T) {
	files, err := pack.Chart(welcome(t))
	require.NoError(t, err)
	wantContains(t, files, "values.yaml", "repository: registry.example:5000/welcome\n", "tag: v1\n")
	wantContains(t, files, "templates/crds/as.example.com.yaml", "{{- if .Values.crds.install }}",
		`not a {{ "{{" }} template {{ "}}" }}`, "helm.sh/resource-policy")
	wantContains(t, files, "templates/deployment-manager.yaml", "namespace: {{ .Release.Namespace }}\n",
		"  replicas: {{ .Values.replicas }}\n",
		"      - args:\n        {{- toYaml .Values.args | nindent 10 }}\n",
		"        image: \"{{ .Values.image.repository }}{{ with .Values.image.digest }}@",
		"serviceAccountName: manager\n")
	wantContains(t, files, "templates/mutatingwebhookconfiguration-hooks.yaml", "namespace: {{ .Release.Namespace }}\n")
	for name, text := range files {
		if strings.Contains(string(text), "PLACE-") || strings.Contains(string(text), "kind: Namespace\n") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// The bundle describes the operator, its roles, kinds and webhooks for OLM.
func TestBundle(t *testing.T) {
	files, err := pack.Bundle(welcome(t))
	require.NoError(t, err)
	wantContains(t, files, "manifests/welcome.clusterserviceversion.yaml", "serviceAccountName: manager\n",
		"image: registry.example:5000/welcome:v1\n",
		"name: welcome.v0.1.0\n", "webhookPath: /mutate\n", "type: MutatingWebhook\n", "- as\n", "alm-examples: '[]'\n")
	wantContains(t, files, "manifests/clusterrole-viewer.yaml", "name: viewer\n")
	wantContains(t, files, "metadata/annotations.yaml", "operators.operatorframework.io.bundle.package.v1: welcome\n")
	wantContains(t, files, "metadata/annotations.yaml", "bundle.channel.default.v1: candidate-v0\n")
	if _, ok := files["manifests/clusterrole-own.yaml"]; ok {
		t.Error("the operator's role is granted twice")
	}
	for name, text := range files {
		if strings.Contains(name, "webhook-role") || strings.Contains(string(text), "mutatingwebhookconfigurations") {
			t.Errorf("OLM creates the webhooks' certificate, but the operator may also create it:\n%s", text)
		}
	}
}

// The installer has all objects and the image.
func TestInstaller(t *testing.T) {
	o := welcome(t)
	data, err := pack.Installer(o)
	if err != nil || strings.Count(string(data), "---\n") != len(o.Objects) ||
		!strings.Contains(string(data), "image: registry.example:5000/welcome:v1\n") {
		t.Errorf("%v\n%s", err, data)
	}
	if image, _, _ := unstructured.NestedSlice(o.Objects[6].Object, "spec", "template", "spec",
		"containers"); image[0].(map[string]any)["image"] != "controller:latest" {
		t.Error("the objects themselves were changed")
	}
	if _, err := pack.Installer(pack.Operator{Objects: manifests.Objects{o.Objects[0]}}); err == nil {
		t.Error("a project without an operator was packed")
	}
}

// Write removes and replaces only what it wrote earlier.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		return string(data)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("mine"), 0o600))
	require.NoError(t, (pack.Files{"a/b": []byte("1"), "c": []byte("2")}).Write(dir))
	require.NoError(t, (pack.Files{"c": []byte("3")}).Write(dir))
	if _, err := os.Stat(filepath.Join(dir, "a/b")); err == nil || read("c") != "3" || read("mine") != "mine" {
		t.Errorf("a/b: %v; c: %s; mine: %s", err, read("c"), read("mine"))
	}
	err := (pack.Files{"c": []byte("4"), "mine": []byte("5")}).Write(dir)
	if err == nil || !strings.Contains(err.Error(), "mine exists, and kelson package did not write it") ||
		read("c") != "3" || read("mine") != "mine" {
		t.Errorf("%v; c: %s; mine: %s", err, read("c"), read("mine"))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".kelson-package"), []byte("../mine\n"), 0o600))
	assert.ErrorContains(t, (pack.Files{"c": []byte("5")}).Write(dir), "../mine is not a path below")
}
