package apiserver_test

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kelson.dev/apiserver"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// strictColumns has a column that cannot be computed for an empty object.
type strictColumns struct{}

func (strictColumns) Columns() []apiserver.Column[*pizza] {
	return []apiserver.Column[*pizza]{{Name: "First", Value: func(p *pizza) any { return p.Spec.Toppings[0].Name }}}
}

// A table without rows has columns, and their functions are not called.
func TestEmptyTable(t *testing.T) {
	s, _ := newServer(t, kinds(strictColumns{}))
	table := body(t, s, "/apis/"+group+"/v1beta1/pizzas", asTable)
	if !strings.Contains(table, `"name":"First"`) || !strings.Contains(table, `"rows":[]`) {
		t.Errorf("table: %s", table)
	}
}

type phase string

// valueColumns has a column for each kind of value.
type valueColumns struct{}

func (valueColumns) Columns() []apiserver.Column[*topping] {
	column := func(name, kind string, value func(t *topping) any) apiserver.Column[*topping] {
		return apiserver.Column[*topping]{Name: name, Type: kind, Value: value}
	}
	count, ready, size := int16(3), true, "big"
	return []apiserver.Column[*topping]{
		column("date", "date", func(t *topping) any { return t.CreationTimestamp }),
		column("pointer to date", "date", func(t *topping) any { return &t.CreationTimestamp }),
		column("no date", "date", func(t *topping) any { return t.DeletionTimestamp }),
		column("zero date", "date", func(*topping) any { return time.Time{} }),
		column("time", "string", func(*topping) any { return time.Unix(0, 0) }),
		column("integer", "integer", func(*topping) any { return uint8(7) }),
		column("pointer to integer", "integer", func(*topping) any { return &count }),
		column("number", "number", func(*topping) any { return float32(1.5) }),
		column("boolean", "boolean", func(*topping) any { return &ready }),
		column("pointer to string", "", func(*topping) any { return &size }),
		column("named string", "", func(*topping) any { return phase("Ready") }),
		column("no string", "", func(*topping) any { return (*string)(nil) }),
		column("nothing", "", func(*topping) any { return nil }),
		column("quantity", "", func(*topping) any { return resource.MustParse("5Gi") }),
		column("duration", "", func(*topping) any { return time.Minute }),
	}
}

// Columns show the values that pointers point to, and times in columns of dates as ages.
func TestCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := newServer(t, apiserver.Group(group,
			apiserver.Kind(&topping{TypeMeta: typeMeta("v1alpha1", "Topping")}, apiserver.ClusterScoped(),
				valueColumns{})))
		_, err := client.Resource(toppings).Create(t.Context(), newTopping(t, "ham"),
			metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		table := body(t, s, "/apis/"+group+"/v1alpha1/toppings", asTable)
		want := `"cells":["ham","5m","5m",null,"\u003cunknown\u003e","1970-01-01T00:00:00Z",7,3,1.5,true,"big","Ready",null,null,"5Gi","1m0s","5m"]`
		assert.Containsf(t, table, want, "cells")
	})
}

// sizeRules has a default that validation requires.
type sizeRules struct{}

func (sizeRules) Default(t *topping) { t.Spec.Cost = cmp.Or(t.Spec.Cost, 5) }

func (sizeRules) Validate(_ context.Context, t *topping) (errs field.ErrorList) {
	if t.Spec.Cost == 0 {
		errs = append(errs, field.Required(field.NewPath("spec", "cost"), ""))
	}
	return errs
}

// Validation and admission see the defaults of rules in writes of every kind. Managers do not own
// them.
func TestDefaultsOfRules(t *testing.T) {
	costs := func(_ context.Context, _ *apiserver.Tx, w *apiserver.Write[*topping]) error {
		if w.Object.Spec.Cost == 0 {
			t.Errorf("admission of %s %s: no cost", w.Operation, w.Name)
		}
		return nil
	}
	for name, part := range map[string]apiserver.Part{"fast paths": apiserver.Parts(),
		"no fast paths": apiserver.NoFastPaths()} {
		t.Run(name, func(t *testing.T) {
			_, client := newServer(t, part, apiserver.Admission(costs), apiserver.Mutation(costs),
				apiserver.Group(group, apiserver.Kind(&topping{TypeMeta: typeMeta("v1alpha1", "Topping")},
					apiserver.ClusterScoped(), sizeRules{})))
			in, ctx := client.Resource(toppings), t.Context()
			config := newTopping(t, "ham")
			apply := func(spec map[string]any, want string) {
				t.Helper()
				config.Object["spec"] = spec
				applied, err := in.Apply(ctx, "ham", config, metav1.ApplyOptions{FieldManager: "x"})
				require.NoError(t, err)
				check(t, "cost", text(t, applied, "spec", "cost"), want)
				owns := strings.Contains(text(t, applied, "metadata", "managedFields"), "f:cost")
				if owns != (len(spec) > 0) {
					t.Errorf("managedFields: %s", text(t, applied, "metadata", "managedFields"))
				}
			}
			apply(map[string]any{}, "5")
			apply(map[string]any{"cost": int64(7)}, "7")
			apply(map[string]any{}, "5")
			for kind, patch := range map[types.PatchType]string{
				types.MergePatchType: `{"spec":{"cost":null}}`, types.StrategicMergePatchType: `{"spec":{"cost":null}}`,
				types.JSONPatchType: `[{"op":"replace","path":"/spec","value":{}}]`,
			} {
				_, err := in.Patch(ctx, "ham", kind, []byte(patch), metav1.PatchOptions{})
				assert.NoErrorf(t, err, "%s", kind)
			}
		})
	}
}
