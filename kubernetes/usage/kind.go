package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"kelson.dev/apiserver/resource"
)

// kind returns the Resource of a kind that only has v1beta1, whose type is also the hub.
func kind[T any](plural, name string, namespaced bool,
	read func(ctx context.Context, namespace, name string) ([]runtime.Object, error)) *resource.Resource {
	return &resource.Resource{
		Group: v1beta1.GroupName, Plural: plural, Kind: name, ListKind: name + "List", Namespaced: namespaced,
		Verbs: []string{resource.Get, resource.List}, Versions: []resource.Version{{Name: version}},
		StorageVersion: version,
		Codec:          codec{name, reflect.TypeFor[T]()}, Computed: read, Owner: Owner, Yields: true,
		Behavior: resource.Behavior{QualifiedKind: true},
		Table:    func(string) upstream.TableConvertor { return table{} },
	}
}

const version = "v1beta1"

// codec implements [resource.Codec] for a kind that is never written.
type codec struct {
	kind string
	typ  reflect.Type
}

var errReadOnly = apierrors.NewBadRequest("metrics cannot be written")

func (c codec) New() runtime.Object { return reflect.New(c.typ).Interface().(runtime.Object) }

func (c codec) Load(stored []byte) (runtime.Object, error) {
	obj := c.New()
	if err := json.Unmarshal(stored, obj); err != nil {
		return nil, fmt.Errorf("decode %s: %w", c.kind, err)
	}
	return obj, nil
}

func (c codec) Store(hub runtime.Object) ([]byte, error) {
	hub.GetObjectKind().SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(c.kind))
	return json.Marshal(hub)
}

func (c codec) ToVersion(hub runtime.Object, _ string) (runtime.Object, error) {
	versioned := hub.DeepCopyObject()
	versioned.GetObjectKind().SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind(c.kind))
	return versioned, nil
}

func (c codec) FromVersion(versioned runtime.Object) (runtime.Object, error) { return versioned, nil }

func (c codec) Decode([]byte, string, string) (runtime.Object, []error, error) {
	return nil, nil, errReadOnly
}

func (c codec) DecodePatched([]byte, string) (runtime.Object, []error, error) {
	return nil, nil, errReadOnly
}

func (c codec) PatchMeta(string) (strategicpatch.LookupPatchMeta, bool) { return nil, false }

func (c codec) FieldManager(string, string) (resource.FieldManager, error) {
	return nil, errReadOnly
}

func (c codec) Interfaces() resource.Interfaces { return resource.Interfaces{} }

// table renders metrics with metrics-server's columns.
type table struct{}

// ConvertToTable implements [upstream.TableConvertor].
func (table) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		out.ColumnDefinitions = []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"},
			{Name: "cpu", Type: "string", Format: "quantity"}, {Name: "memory", Type: "string", Format: "quantity"},
			{Name: "Window", Type: "string", Format: "duration"},
		}
	}
	row := metav1.TableRow{Object: runtime.RawExtension{Object: object}}
	switch m := object.(type) {
	case *v1beta1.PodMetrics:
		if m.Name == "" { // for the columns alone
			return out, nil
		}
		sum := noUsage()
		for _, c := range m.Containers {
			add(sum, c.Usage)
		}
		row.Cells = []any{m.Name, sum.Cpu().String(), sum.Memory().String(), m.Window.Duration.String()}
	case *v1beta1.NodeMetrics:
		if m.Name == "" {
			return out, nil
		}
		row.Cells = []any{m.Name, m.Usage.Cpu().String(), m.Usage.Memory().String(), m.Window.Duration.String()}
	default:
		return nil, errors.New("not metrics")
	}
	out.Rows = []metav1.TableRow{row}
	return out, nil
}
