package builtin

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/require"
)

// Every kind with the verb list has a table, with its own columns or with name and age.
func TestEveryKindHasATable(t *testing.T) {
	all, err := Resources(Config{})
	require.NoError(t, err)
	for _, r := range all {
		if r.Review != nil || r.Plural == "apiservices" {
			continue
		}
		t.Run(r.GroupResource().String(), func(t *testing.T) {
			hub, err := Scheme().New(schema.GroupVersionKind{Group: r.Group, Version: "__internal", Kind: r.Kind})
			require.NoError(t, err)
			if table, err := r.Table(r.StorageVersion).ConvertToTable(t.Context(), hub,
				&metav1.TableOptions{}); err != nil || len(table.ColumnDefinitions) < 2 {
				t.Errorf("%+v, %v", table, err)
			}
		})
	}
}
