package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// tableForm builds tables of one kind for one request. Cells may contain ages, so they are not
// cached.
type tableForm struct {
	ctx     context.Context
	res     *resource.Resource
	convert upstream.TableConvertor
	opts    *metav1.TableOptions
	format  wire.Format
	object  form   // form of the rows' objects; zero: rows have no objects
	before  []byte // JSON before the metadata of these objects, if they have only metadata
	headed  bool   // the column definitions were sent
	single  bool   // the table shows one object that the request names; see form.current
}

// tableForm reads the options of a table from the query.
func (out *output) tableForm(f wire.Format) (*tableForm, error) {
	opts := &metav1.TableOptions{}
	if err := out.in.query(opts); err != nil {
		return nil, err
	}
	switch errs := validation.ValidateTableOptions(opts); len(errs) {
	case 0:
	case 1:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs[0].Error()))
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs))
	}
	t := &tableForm{ctx: out.in.ctx, res: out.on.res, opts: opts, format: f}
	if out.on.res.Table != nil {
		t.convert = out.on.res.Table(out.on.version)
	}
	if t.convert == nil {
		t.convert = upstream.NewDefaultTableConvertor(out.on.res.GroupResource())
	}
	switch opts.IncludeObject {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		t.object = form{res: out.on.res, version: out.on.version, media: resource.MediaJSON}
	case metav1.IncludeMetadata, "":
		t.object = form{res: out.on.res, version: out.on.version, media: resource.MediaJSON,
			as: f.As.GroupVersion().WithKind("PartialObjectMetadata")}
		t.before = []byte(wire.MetadataBefore(t.object.as))
	}
	return t, nil
}

func (out *output) respondTable(code int, f wire.Format, list metav1.ListMeta, objects []*store.Object) error {
	t, err := out.tableForm(f)
	if err != nil {
		return err
	}
	t.single = out.on.name != ""
	table, rows, err := t.table(list, objects)
	if err != nil {
		return err
	}
	parts, err := encodeTable(table, rows)
	if err != nil {
		return err
	}
	wire.Parts(out.w, out.in.req, code, f, f.As, parts)
	return nil
}

// A rowObject is the JSON of the object in a row, in three parts; most objects have only the middle
// one. A row without an object has none.
type rowObject struct{ before, middle, after []byte }

var metadataAfter = []byte(wire.MetadataAfter)

// encodeTable returns the JSON of a table whose rows have no objects, with these objects. They are
// not copied, because they are most of a table.
func encodeTable(table *metav1.Table, objects []rowObject) ([][]byte, error) {
	if len(table.Rows) == 0 {
		data, err := json.Marshal(table)
		return [][]byte{data}, err
	}
	// The rows are the last member of a table, and the object is the last one of a row.
	bare := *table
	bare.Rows = []metav1.TableRow{}
	head, err := json.Marshal(&bare)
	if err != nil {
		return nil, err
	}
	noObject := []byte("null")
	parts := make([][]byte, 0, 4*len(objects)+2)
	parts = append(parts, bytes.TrimSuffix(head, []byte("]}")))
	between := ""
	for i, object := range objects {
		row, err := json.Marshal(&table.Rows[i])
		if err != nil {
			return nil, err
		}
		if object.middle == nil {
			object.middle = noObject
		}
		parts = append(parts, append([]byte(between), bytes.TrimSuffix(row, []byte("null}"))...))
		if object.before != nil {
			parts = append(parts, object.before, object.middle, object.after)
		} else {
			parts = append(parts, object.middle)
		}
		between = "},"
	}
	return append(parts, []byte("}]}")), nil
}

// plainTable is the type of the converter that prints names and ages.
var plainTable = reflect.TypeOf(upstream.NewDefaultTableConvertor(schema.GroupResource{}))

// table returns a table with a row for each object, and the objects in the rows for encodeTable.
func (t *tableForm) table(list metav1.ListMeta, objects []*store.Object) (*metav1.Table, []rowObject, error) {
	table := &metav1.Table{ListMeta: list, Rows: make([]metav1.TableRow, 0, len(objects))}
	shown := make([]rowObject, 0, len(objects))
	lean, ok := t.convert.(resource.LeanTable)
	isLean := ok && lean.IgnoresManagedFields()
	table.SetGroupVersionKind(t.format.As)
	heads := !t.opts.NoHeaders && !t.headed
	if len(objects) == 0 && heads { // an empty list has columns too
		head, err := t.head()
		if err != nil {
			return nil, nil, err
		}
		table.ColumnDefinitions = head
	}
	if len(objects) == 0 && reflect.TypeOf(t.convert) == plainTable {
		table.Rows = nil // as in Kubernetes for kinds without columns of their own
	}
	unread := unreadable{res: t.res}
	for i, obj := range objects {
		data := obj.Data
		if isLean {
			data = obj.WithoutManagedFields()
		}
		hub, err := t.res.Codec.Load(data)
		if err != nil && t.single {
			return nil, nil, corrupt(t.res, obj, err)
		}
		if err != nil {
			if err := unread.add(obj, err); err != nil {
				return nil, nil, err
			}
			continue
		}
		part, err := t.convert.ConvertToTable(t.ctx, hub, &metav1.TableOptions{NoHeaders: !heads || i > 0})
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			table.ColumnDefinitions = part.ColumnDefinitions
		}
		for _, row := range part.Rows {
			object, err := t.rowObject(obj)
			if err != nil {
				return nil, nil, err
			}
			row.Object = runtime.RawExtension{}
			table.Rows, shown = append(table.Rows, row), append(shown, object)
		}
	}
	return table, shown, unread.err()
}

// headed is an optional interface of a converter that returns its columns without an object.
// Converters without it convert an empty object.
type headed interface {
	Head() []metav1.TableColumnDefinition
}

// head returns the columns.
func (t *tableForm) head() ([]metav1.TableColumnDefinition, error) {
	if c, ok := t.convert.(headed); ok {
		return c.Head(), nil
	}
	part, err := t.convert.ConvertToTable(t.ctx, t.res.Codec.New(), &metav1.TableOptions{})
	if err != nil {
		return nil, err
	}
	return part.ColumnDefinitions, nil
}

// rowObject returns the object in a row. Stored metadata are not copied.
func (t *tableForm) rowObject(obj *store.Object) (rowObject, error) {
	switch {
	case t.object.res == nil:
		return rowObject{}, nil
	case t.object.storedMetadata(obj):
		return rowObject{t.before, obj.Metadata(), metadataAfter}, nil
	case t.single:
		json, err := t.object.current(obj)
		return rowObject{middle: json}, err
	}
	json, err := t.object.bare(obj)
	return rowObject{middle: json}, err
}

// frame returns the frame of an event as a table of one row. Only the first table of a watch has
// column definitions.
func (t *tableForm) frame(typ watch.EventType, obj *store.Object) ([]byte, error) {
	table, rows, err := t.table(metav1.ListMeta{ResourceVersion: revisionString(obj.Revision)}, []*store.Object{obj})
	if err != nil {
		return nil, err
	}
	t.headed = true
	parts, err := encodeTable(table, rows)
	if err != nil {
		return nil, err
	}
	return wire.Event(resource.MediaJSON, typ, t.format.As, bytes.Join(parts, nil))
}

// respondView sends an object that is not stored in this form: a view (scale), a review, the result
// of a subresource.
func (out *output) respondView(code int, f wire.Format, obj runtime.Object) error {
	if status, ok := obj.(*metav1.Status); ok {
		if status.Code != 0 {
			code = int(status.Code)
		}
		status.Kind, status.APIVersion = "Status", "v1"
		bare, err := wire.Encode(f.Bare(), status)
		if err != nil {
			return err
		}
		out.send(code, f, wire.StatusKind(), bare)
		return nil
	}
	switch f.As.Kind {
	case "Table":
		table, err := out.viewTable(f, obj)
		if err != nil {
			return err
		}
		obj = table
	case "PartialObjectMetadata":
		object, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		partial := meta.AsPartialObjectMetadata(object)
		partial.SetGroupVersionKind(f.As)
		obj = partial
	case "PartialObjectMetadataList":
		return out.viewNotList(obj)
	}
	kind := obj.GetObjectKind().GroupVersionKind()
	if kind.Empty() {
		kind = out.on.kind
		obj.GetObjectKind().SetGroupVersionKind(kind)
	}
	bare, err := wire.Encode(f.Bare(), obj)
	if err != nil {
		return err
	}
	out.send(code, f, kind, bare)
	return nil
}

// viewNotList returns the error for a request that wants a view as a list.
func (out *output) viewNotList(view runtime.Object) error {
	if out.on.sub == nil || out.on.sub.Update == nil {
		return out.on.notList()
	}
	if out.on.sub.Update.Internal {
		hub, err := out.on.viewHub(view)
		if err != nil {
			return err
		}
		view = hub
	}
	return notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (%T)", view)
}

// viewTable returns a table with the view as its row. The columns of a built-in kind support its
// views.
func (out *output) viewTable(f wire.Format, view runtime.Object) (*metav1.Table, error) {
	form, err := out.tableForm(f)
	if err != nil {
		return nil, err
	}
	hub := view
	switch {
	case out.on.sub == nil || out.on.sub.Update == nil:
		form.convert = upstream.NewDefaultTableConvertor(out.on.res.GroupResource())
	case out.on.sub.Update.Table != nil:
		form.convert = out.on.sub.Update.Table()
	default:
		if hub, err = out.on.viewHub(view); err != nil {
			return nil, err
		}
	}
	table, err := form.convert.ConvertToTable(out.in.ctx, hub, form.opts)
	if err != nil {
		return nil, err
	}
	table.SetGroupVersionKind(f.As)
	for i := range table.Rows {
		if table.Rows[i].Object, err = form.viewObject(view); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// viewObject returns the object in a view's row.
func (t *tableForm) viewObject(view runtime.Object) (raw runtime.RawExtension, err error) {
	switch {
	case t.object.res == nil:
		return raw, nil
	case !t.object.as.Empty():
		object, err := meta.Accessor(view)
		if err != nil {
			return raw, err
		}
		partial := meta.AsPartialObjectMetadata(object)
		partial.SetGroupVersionKind(t.object.as)
		view = partial
	}
	raw.Raw, err = json.Marshal(view)
	return raw, err
}
