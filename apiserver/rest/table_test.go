package rest

import (
	"bytes"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A table that is encoded in parts has the same JSON as encoding/json produces.
func TestEncodeTable(t *testing.T) {
	condition := []metav1.TableRowCondition{{Type: metav1.RowCompleted, Status: metav1.ConditionTrue}}
	some, more := []byte(`{"metadata":{"name":"a"}}`), []byte(`{"metadata":{"name":"b"}}`)
	row := func(cells ...any) metav1.TableRow { return metav1.TableRow{Cells: cells} }
	for _, test := range []struct {
		name    string
		rows    []metav1.TableRow
		objects [][]byte
	}{
		{"no rows", []metav1.TableRow{}, nil},
		{"null", nil, nil},
		{"without objects", []metav1.TableRow{row("a", 1), row("b", nil)}, [][]byte{nil, nil}},
		{"one", []metav1.TableRow{row("a", 1)}, [][]byte{some}},
		{"two", []metav1.TableRow{row("<a>"), {Conditions: condition}}, [][]byte{some, more}},
		{"some", []metav1.TableRow{row("a"), row("b"), row("c")}, [][]byte{nil, some, nil}},
	} {
		table := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, Rows: test.rows,
			ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string"}}}
		parts, err := encodeTable(table, test.objects)
		require.NoErrorf(t, err, "%s", test.name)
		for i, object := range test.objects {
			table.Rows[i].Object = runtime.RawExtension{Raw: object}
		}
		want, err := json.Marshal(table)
		require.NoErrorf(t, err, "%s", test.name)
		assert.Equalf(t, string(bytes.Join(parts, nil)), string(want), "%s", test.name)
	}
}
