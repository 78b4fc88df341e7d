package builtin

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Whatever can be listed has a table, with columns of its own or with names and times. API-11
func TestEveryKindHasATable(t *testing.T) {
	all, err := Resources(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Review != nil || r.Plural == "apiservices" {
			continue
		}
		t.Run(r.GroupResource().String(), func(t *testing.T) {
			hub, err := Scheme().New(schema.GroupVersionKind{Group: r.Group, Version: "__internal", Kind: r.Kind})
			if err != nil {
				t.Fatal(err)
			}
			if table, err := r.Table(r.StorageVersion).ConvertToTable(t.Context(), hub, &metav1.TableOptions{}); err != nil || len(table.ColumnDefinitions) < 2 {
				t.Errorf("%+v, %v", table, err)
			}
		})
	}
}
