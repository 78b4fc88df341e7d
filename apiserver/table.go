package apiserver

import (
	"context"
	"fmt"
	"math"
	"reflect"
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
	t.head = append(t.head, metav1.TableColumnDefinition{Name: c.name, Type: c.kind, Description: c.description,
		Priority: c.priority})
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
	if err != nil {
		return unknownAge
	}
	return ageOf(object.GetCreationTimestamp().Time)
}

// unknownAge is the age of a zero time, as in Kubernetes.
const unknownAge = "<unknown>"

// ageOf returns how long ago a time was, such as 5m.
func ageOf(t time.Time) string {
	if t.IsZero() {
		return unknownAge
	}
	return duration.HumanDuration(time.Since(t))
}

// Head returns the columns. Lists without objects need no cells, which a Column could not compute.
func (t *tabler) Head() []metav1.TableColumnDefinition { return t.head }

// ConvertToTable renders one hub.
func (t *tabler) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if opts, ok := options.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		table.ColumnDefinitions = t.head
	}
	cells := make([]any, len(t.columns))
	for i, c := range t.columns {
		cells[i] = cell(c.kind, c.value(obj))
	}
	table.Rows = []metav1.TableRow{{Cells: cells, Object: runtime.RawExtension{Object: obj}}}
	return table, nil
}

// cell converts the value of a column of a type to one of the Go types that cells may have.
// Pointers mean the values that they point to. A time is an age in a column of the type date.
func cell(kind string, value any) any {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	if t, ok := timeOf(v.Interface()); ok {
		switch {
		case kind == "date":
			return ageOf(t)
		case t.IsZero():
			return nil
		}
		return t.UTC().Format(time.RFC3339)
	}
	if kind == "string" || kind == "date" {
		p := reflect.New(v.Type()) // has the methods of the type and of the pointer
		p.Elem().Set(v)
		if text, ok := p.Interface().(fmt.Stringer); ok {
			return text.String()
		}
	}
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return int64(v.Uint())
	case v.CanFloat():
		return v.Float()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.Kind() == reflect.String:
		return v.String()
	}
	return fmt.Sprint(v.Interface())
}

func timeOf(value any) (time.Time, bool) {
	switch t := value.(type) {
	case time.Time:
		return t, true
	case metav1.Time:
		return t.Time, true
	case metav1.MicroTime:
		return t.Time, true
	}
	return time.Time{}, false
}
