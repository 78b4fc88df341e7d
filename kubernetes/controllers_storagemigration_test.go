package kubernetes_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// versions returns the versions of a definition, one of which is the storage version.
func versions(storage string) []any {
	var all []any
	for _, name := range []string{"v1", "v2"} {
		all = append(all, map[string]any{
			"name": name, "served": true, "storage": name == storage,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
		})
	}
	return all
}

// A migration stores custom objects again in the storage version, and only those, and removes the
// other version from the stored versions of the definition. That version can then be removed.
func TestMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		definition := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "ats.example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Cluster",
				"names":    map[string]any{"plural": "ats", "singular": "at", "kind": "At", "listKind": "AtList"},
				"versions": versions("v1"),
			},
		}}
		require.NoError(t, env.Client().Create(t.Context(), definition))
		at := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "At",
			"metadata": map[string]any{"name": "a"}}}
		require.NoError(t, env.Client().Create(t.Context(), at))
		stored := func() string {
			return string(env.Plane().Store().Snapshot().Get(store.Key{Resource: "ats.example.com", Name: "a"}).Data)
		}
		require.NoError(t, unstructured.SetNestedSlice(definition.Object, versions("v2"), "spec", "versions"))
		require.NoError(t, env.Client().Update(t.Context(), definition))
		if before := stored(); !strings.Contains(before, "example.com/v1") {
			t.Fatalf("stored %s", before)
		}
		migrate := func(name, resource string) {
			env.Create(t, &migrationv1.StorageVersionMigration{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: migrationv1.StorageVersionMigrationSpec{
					Resource: metav1.GroupResource{Group: "example.com", Resource: resource}},
			})
			env.Settle(t)
		}
		migrate("first", "ats")
		after := stored()
		assert.Containsf(t, after, "example.com/v2", "stored")
		want := func(name string, kind migrationv1.MigrationConditionType) {
			t.Helper()
			m, err := client.Get[migrationv1.StorageVersionMigration](t.Context(), env.Client(), client.Key{Name: name})
			require.NoError(t, err)
			if !meta.IsStatusConditionTrue(m.Status.Conditions, string(kind)) {
				t.Errorf("%s: %+v", name, m.Status)
			}
		}
		want("first", migrationv1.MigrationSucceeded)
		require.NoError(t, env.Client().Get(t.Context(), client.KeyOf(definition), definition))
		left, _, _ := unstructured.NestedStringSlice(definition.Object, "status",
			"storedVersions")
		assert.Slicef(t, left, []string{"v2"}, "stored versions")
		all, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
		if !slices.ContainsFunc(all, func(c any) bool {
			condition := c.(map[string]any)
			return condition["type"] == "StorageMigrating" && condition["status"] == "False" &&
				condition["reason"] == "MigrationSucceeded"
		}) {
			t.Errorf("conditions of the definition: %v", all)
		}
		migrate("second", "ats")
		want("second", migrationv1.MigrationSucceeded)
		assert.Equalf(t, stored(), after, "an object in the storage version was stored again")
		require.NoError(t, env.Client().Get(t.Context(), client.KeyOf(definition), definition))
		err := unstructured.SetNestedSlice(definition.Object, versions("v2")[1:], "spec", "versions")
		require.NoError(t, err)
		assert.NoErrorf(t, env.Client().Update(t.Context(), definition), "remove the former version")
		migrate("third", "nothings")
		time.Sleep(2 * time.Minute)
		env.Settle(t)
		want("third", migrationv1.MigrationFailed)
	})
}
