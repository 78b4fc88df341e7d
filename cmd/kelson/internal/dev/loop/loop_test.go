package loop

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"kelson.dev/cmd/kelson/internal/dev/devlog"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A build that Ctrl-C stopped is not an error. Other failed builds are.
func TestFailedBuildIsLogged(t *testing.T) {
	var out bytes.Buffer
	l := &Loop{cfg: Config{Project: &project.Project{}, Log: devlog.New(&out, nil)}}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	l.failBuild(stopped, errors.New("signal: killed"))
	if out.Len() > 0 {
		t.Errorf("after Ctrl-C: %s", out.String())
	}
	l.failBuild(t.Context(), errors.New("undefined: x"))
	if !strings.Contains(out.String(), "✗ undefined: x") || strings.Contains(out.String(), "keeps running") {
		t.Errorf("without a former operator: %s", out.String())
	}
}

// If some or all samples cannot be read, the log has the reason and the next step, once per cause.
func TestSamplesAreLogged(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	l := &Loop{cfg: Config{Project: &project.Project{Dir: dir}, Log: devlog.New(&out, nil)}}
	check := func(part string) {
		t.Helper()
		out.Reset()
		require.NoError(t, l.checkSamples())
		if part == "" && out.Len() > 0 || !strings.Contains(out.String(), part) {
			t.Errorf("logged %q, want %q", out.String(), part)
		}
	}
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "config", "samples"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config", "samples", name), []byte(text), 0o644))
	}
	check("config/samples has none, so the operator may have nothing to do: create objects")
	write("a.yaml", "kind: [")
	check("continuing without samples until all can be read")
	check("")
	write("b.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}")
	write("a.yaml", "kind: a: b")
	check("continuing with the 1 other samples until all can be read: --samples names other files or folders")
	write("a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
	check("")
}

// The roles of an operator name the kinds of other operators that it needs.
func TestUnservedInRoles(t *testing.T) {
	var objects manifests.Objects
	for _, text := range []string{
		`{kind: ClusterRole, rules: [{apiGroups: ["", "vault.example.com"], resources: [pods, vaults, vaults/status]}]}`,
		`{kind: Role, rules: [{apiGroups: [other.example.com], resources: [things]}, {apiGroups: ["*"], resources: [a]}]}`,
		`{kind: ClusterRole, rules: [{apiGroups: [""], resources: ["*"]}, {nonResourceURLs: [/metrics]}]}`,
		`{kind: Service}`,
	} {
		obj := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &obj.Object))
		objects = append(objects, obj)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, meta.RESTScopeNamespace)
	got := strings.Join(unservedInRoles(objects, mapper), " ")
	assert.Equal(t, got, "pods.vault.example.com things.other.example.com vaults vaults.vault.example.com")
	own := &unstructured.Unstructured{}
	own.SetName("things.example.com")
	missing := []string{"others.example.com", "things.example.com"}
	if got := nextDefinition(missing, manifests.Objects{own}); !strings.Contains(got, "config/crd/bases defines things.example.com: list it") {
		t.Errorf("an unlisted definition: %q", got)
	}
	assert.Containsf(t, nextDefinition(missing, nil), "--definitions installs", "definitions of others")
}

// A pod does not start without the Secrets and ConfigMaps that it names, unless they are optional.
func TestReferences(t *testing.T) {
	var pod corev1.PodSpec
	require.NoError(t, yaml.Unmarshal([]byte(`
containers:
- env:
  - {name: A, value: a}
  - {name: B, valueFrom: {secretKeyRef: {name: token, key: value}}}
  - {name: C, valueFrom: {secretKeyRef: {name: other, key: value, optional: true}}}
  - {name: D, valueFrom: {configMapKeyRef: {name: settings, key: d}}}
  envFrom: [{secretRef: {name: token}}, {configMapRef: {name: more}}]
volumes:
- {name: a, secret: {secretName: certificate}}
- {name: b, configMap: {name: settings}}
- {name: c, emptyDir: {}}
`), &pod))
	var got []string
	for _, r := range references(&pod) {
		got = append(got, r.create("system"))
	}
	want := []string{
		"kubectl create secret generic token -n system --from-literal=value=VALUE",
		"kubectl create configmap settings -n system --from-literal=d=VALUE",
		"kubectl create configmap more -n system --from-literal=KEY=VALUE",
		"kubectl create secret generic certificate -n system --from-literal=KEY=VALUE",
	}
	assert.Slice(t, got, want)
}
