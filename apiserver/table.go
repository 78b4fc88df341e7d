package apiserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	upstream "k8s.io/apiserver/pkg/registry/rest"
)

// column is a Column of any kind.
type column struct {
	name, kind, description string
	priority                int32
	value                   func(obj runtime.Object) any
}

// table returns the renderer of a kind; nil means the default columns.
func (k *kind) table() func(string) upstream.TableConvertor {
	if len(k.rules.columns) == 0 {
		return nil
	}
	t := newTabler(k.rules.columns)
	return func(string) upstream.TableConvertor { return t }
}

// tabler renders the columns of a kind.
type tabler struct {
	columns []column
	head    []metav1.TableColumnDefinition
}

func newTabler(columns []column) *tabler {
	t := &tabler{}
	t.add(column{name: "Name", kind: "string", description: "Name must be unique within a namespace.", value: name})
	for _, c := range columns {
		t.add(c)
	}
	t.add(column{name: "Age", kind: "date", description: "When the object was created.", value: age})
	t.head[0].Format = "name"
	return t
}

func (t *tabler) add(c column) {
	if c.kind == "" {
		c.kind = "string"
	}
	t.columns = append(t.columns, c)
	t.head = append(t.head, metav1.TableColumnDefinition{Name: c.name, Type: c.kind, Description: c.description, Priority: c.priority})
}

func name(obj runtime.Object) any {
	object, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return object.GetName()
}

func age(obj runtime.Object) any {
	object, err := meta.Accessor(obj)
	if err != nil || object.GetCreationTimestamp().Time.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(object.GetCreationTimestamp().Time))
}

// ConvertToTable renders one hub.
func (t *tabler) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if opts, ok := options.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		table.ColumnDefinitions = t.head
	}
	cells := make([]any, len(t.columns))
	for i, c := range t.columns {
		cells[i] = cell(c.value(obj))
	}
	table.Rows = []metav1.TableRow{{Cells: cells, Object: runtime.RawExtension{Object: obj}}}
	return table, nil
}

// cell converts a value to one of the types that cells may have.
func cell(value any) any {
	switch v := value.(type) {
	case nil, string, bool, int64, float64:
		return v
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case metav1.Time:
		return v.UTC().Format(time.RFC3339)
	}
	return fmt.Sprint(value)
}
