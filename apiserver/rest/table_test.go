package rest

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A table that is encoded in parts has the same JSON as encoding/json produces.
func TestEncodeTable(t *testing.T) {
	condition := []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue}}
	some := rowObject{middle: []byte(`{"metadata":{"name":"a"}}`)}
	parts := rowObject{[]byte(`{"metadata":`), []byte(`{"name":"b"}`), []byte(`}`)}
	row := func(cells ...any) metav1.TableRow { return metav1.TableRow{Cells: cells} }
	for _, test := range []struct {
		name    string
		rows    []metav1.TableRow
		objects []rowObject
	}{
		{"no rows", []metav1.TableRow{}, nil},
		{"null", nil, nil},
		{"without objects", []metav1.TableRow{row("a", 1), row("b", nil)}, []rowObject{{}, {}}},
		{"one", []metav1.TableRow{row("a", 1)}, []rowObject{some}},
		{"two", []metav1.TableRow{row("<a>"), {Conditions: condition}}, []rowObject{some, parts}},
		{"some", []metav1.TableRow{row("a"), row("b"), row("c")}, []rowObject{{}, some, {}}},
	} {
		table := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, Rows: test.rows,
			ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string"}}}
		encoded, err := encodeTable(table, test.objects)
		require.NoErrorf(t, err, "%s", test.name)
		for i, object := range test.objects {
			table.Rows[i].Object = runtime.RawExtension{Raw: slices.Concat(object.before, object.middle, object.after)}
		}
		want, err := json.Marshal(table)
		require.NoErrorf(t, err, "%s", test.name)
		assert.Equalf(t, string(bytes.Join(encoded, nil)), string(want), "%s", test.name)
	}
}
