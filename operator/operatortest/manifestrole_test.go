package operatortest_test

import (
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/operatortest/manifest"
)

// Role returns the roles of a folder with their bindings and namespaces, and an error if there are
// none.
func TestManifestRole(t *testing.T) {
	dir := write(t, map[string]string{
		"role.yaml": `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager-role}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: manager-role, namespace: shop}
rules: []
`,
		"leader.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: leader-election-role}\nrules: []\n",
		"other.yaml":  configMapOfManifest("c"),
	})
	all, err := manifest.Role(dir)
	require.NoError(t, err)
	var got []string
	for _, m := range all {
		got = append(got, m.Object.GetKind()+" "+m.Object.GetNamespace()+" "+m.Object.GetName())
	}
	want := []string{
		"Role default leader-election-role", "RoleBinding default operatortest:leader-election-role",
		"ClusterRole  manager-role", "ClusterRoleBinding  operatortest:manager-role",
		"Namespace  shop", "Role shop manager-role", "RoleBinding shop operatortest:manager-role",
	}
	assert.Slice(t, got, want)
	_, err = manifest.Role(dir + "/other.yaml")
	assert.ErrorIsf(t, err, manifest.ErrNoRoles, "without roles")
}
