package operatortest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/operatortest/manifest"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func configMapOfManifest(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

func TestRead(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yml": configMapOfManifest("b"),
		"a.yaml": "# only a comment\n---\n" + configMapOfManifest("a1") + "---\n" +
			configMapOfManifest("a2") + "---\n",
		"c.json":             `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`,
		"kustomization.yaml": "resources: [a.yaml]",
		"README.md":          "nothing",
		"below/d.yaml":       configMapOfManifest("d"),
	})
	got, err := manifest.Read(dir, filepath.Join(dir, "below", "d.yaml"))
	require.NoError(t, err)
	var names []string
	for _, m := range got {
		names = append(names, m.Object.GetName())
	}
	assert.Equalf(t, strings.Join(names, " "), "a1 a2 b c d", "read %v", names)
}

func TestReadRefuses(t *testing.T) {
	dir := write(t, map[string]string{
		"syntax.yaml":  "a: [",
		"scalar.yaml":  "just text",
		"nameless.yml": "apiVersion: v1\nkind: ConfigMap\n",
		"empty.yaml":   "# nothing\n",
	})
	for _, test := range []struct{ file, want string }{
		{"none", "no such file"},
		{"syntax.yaml", "syntax.yaml"},
		{"scalar.yaml", "scalar.yaml"},
		{"nameless.yml", "lacks apiVersion, kind or metadata.name"},
		{"empty.yaml", "no objects in"},
	} {
		_, err := manifest.Read(filepath.Join(dir, test.file))
		assert.ErrorContainsf(t, err, test.want, "%s", test.file)
	}
}

func TestManifestRBAC(t *testing.T) {
	const account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: system}\n"
	dir := write(t, map[string]string{
		"a.yaml": account,
		"b.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: system}\n",
		"c.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: kube-system}\n",
		"d.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: none}\nsubjects: [{kind: ServiceAccount, name: a}, " +
			"{kind: ServiceAccount, name: a, namespace: other}, {kind: User, name: u}]\n",
		"e.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: none}\n",
	})
	got, user, err := manifest.RBAC(dir)
	require.NoError(t, err)
	var kinds []string
	for _, m := range got {
		if subjects, found, _ := unstructured.NestedSlice(m.Object.Object, "subjects"); found {
			var namespaces []any
			for _, s := range subjects {
				namespaces = append(namespaces, s.(map[string]any)["namespace"])
			}
			assert.Slicef(t, namespaces, []any{"system", "other", nil}, "the subjects have the namespaces")
		}
		kinds = append(kinds, strings.TrimPrefix(m.Object.GetNamespace()+"/"+m.Object.GetKind()+"/"+m.Object.GetName(),
			"/"))
	}
	want := "Namespace/system system/ServiceAccount/a system/Role/r kube-system/Role/r system/RoleBinding/none ClusterRole/none"
	assert.Equalf(t, strings.Join(kinds, " "), want, "got %v", kinds)
	assert.Equalf(t, user, "system:serviceaccount:system:a", "the user")
	for _, accounts := range []string{configMapOfManifest("none"),
		account + "---\n" + strings.ReplaceAll(account, "name: a", "name: b")} {
		dir := write(t, map[string]string{"a.yaml": accounts})
		_, _, err := manifest.RBAC(dir)
		assert.ErrorIsf(t, err, manifest.ErrServiceAccounts, "%q", accounts)
	}
}
