package informer

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"kelson.dev/operator/client"
)

// errBehind says that a write of this process must be in the answer and the copy does not have it yet.
var errBehind = errors.New("informer is behind")

// A query is what a list selects. A field that is the name of an index is looked up there, any other is the JSON path of a
// field.
type query struct {
	namespace    string
	labels       labels.Selector
	requirements fields.Requirements
	index, value string // the index to begin with, if there is one
}

func (i *informer) selection(o client.ListOptions) query {
	q := query{namespace: o.Namespace, labels: o.Labels}
	if o.Fields != nil {
		q.requirements = o.Fields.Requirements()
	}
	for _, r := range q.requirements {
		if q.index == "" && r.Operator != selection.NotEquals && i.objs.HasIndex(r.Field) {
			q.index, q.value = r.Field, r.Value
		}
	}
	return q
}

// snapshot, under the lock, is what the copy and the overlay have that may match a query, and the version of it.
func (i *informer) snapshot(q query) (objs []client.Object, version string, err error) {
	var all []client.Object
	if q.index != "" {
		all, err = i.objs.ByIndex(q.index, q.value)
	} else {
		all = i.list(q.namespace)
	}
	if err != nil {
		return nil, "", err
	}
	objs = all[:0]
	for _, obj := range all {
		if len(i.written) > 0 {
			if _, isNews := i.news(client.KeyOf(obj)); isNews {
				continue
			}
		}
		objs = append(objs, obj)
	}
	for key := range i.written {
		e, isNews := i.news(key)
		if !isNews || q.namespace != "" && key.Namespace != q.namespace || i.partOf(key) == nil {
			continue
		}
		switch e.what {
		case behind, outdated:
			return nil, "", errBehind
		case opaque:
			return nil, "", errAskServer
		case present:
			in, err := i.inScope(e.obj)
			if err != nil {
				return nil, "", err
			}
			if in {
				objs = append(objs, e.obj)
			}
		}
	}
	// With several parts no one version holds for all: the oldest is what is surely in.
	var oldest uint64
	for n, p := range i.parts {
		if n == 0 || p.progress < oldest {
			oldest = p.progress
		}
	}
	if oldest > 0 {
		version = strconv.FormatUint(oldest, 10)
	}
	return objs, version, nil
}

// filter keeps what matches a query.
func (i *informer) filter(objs []client.Object, q query) ([]client.Object, error) {
	matching := objs[:0]
	for _, obj := range objs {
		match, err := i.matches(obj, q)
		if err != nil {
			return nil, err
		}
		if match {
			matching = append(matching, obj)
		}
	}
	return matching, nil
}

func (i *informer) matches(obj client.Object, q query) (bool, error) {
	if q.namespace != "" && obj.GetNamespace() != q.namespace {
		return false, nil
	}
	if q.labels != nil && !q.labels.Empty() {
		if set, err := i.labelsOf(obj); err != nil || !q.labels.Matches(set) {
			return false, err
		}
	}
	return i.matchesFields(obj, q.requirements)
}

// inScope says that the informer would hold an object.
func (i *informer) inScope(obj client.Object) (bool, error) {
	if ns := obj.GetNamespace(); ns != "" && len(i.scope.Namespaces) > 0 && !slices.Contains(i.scope.Namespaces, ns) {
		return false, nil
	}
	if i.scope.Labels != nil && !i.scope.Labels.Matches(labels.Set(obj.GetLabels())) {
		return false, nil
	}
	if i.scope.Fields == nil {
		return true, nil
	}
	return i.matchesFields(obj, i.scope.Fields.Requirements())
}

func (i *informer) matchesFields(obj client.Object, requirements fields.Requirements) (bool, error) {
	for _, r := range requirements {
		var equal bool
		if i.objs.HasIndex(r.Field) {
			values, err := i.objs.IndexOf(r.Field, obj)
			if err != nil {
				return false, err
			}
			for _, v := range values {
				equal = equal || v == r.Value
			}
		} else {
			whole := i.whole(obj)
			if whole == nil {
				return false, nil
			}
			value, err := fieldOf(whole, r.Field)
			if err != nil {
				return false, err
			}
			equal = value == r.Value
		}
		if equal == (r.Operator == selection.NotEquals) {
			return false, nil
		}
	}
	return true, nil
}

// fieldOf is the text of the field at a path like "spec.nodeName"; empty if it is not set. The error is a BadRequest, as from
// the server, if a Go type has no such field.
func fieldOf(obj client.Object, path string) (string, error) {
	switch path {
	case "metadata.name":
		return obj.GetName(), nil
	case "metadata.namespace":
		return obj.GetNamespace(), nil
	}
	names := strings.Split(path, ".")
	if u, ok := obj.(*unstructured.Unstructured); ok {
		value, found, err := unstructured.NestedFieldNoCopy(u.Object, names...)
		if !found || err != nil || value == nil {
			return "", nil
		}
		return fmt.Sprint(value), nil
	}
	v := reflect.ValueOf(obj).Elem()
	for _, name := range names {
		field, ok := jsonField(v, name)
		if _, partial := obj.(*metav1.PartialObjectMetadata); !ok || partial && names[0] != "metadata" {
			return "", apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", path))
		}
		for v = field; v.Kind() == reflect.Pointer; v = v.Elem() {
			if v.IsNil() {
				v = reflect.Zero(v.Type().Elem())
				break
			}
		}
	}
	if v.IsZero() && v.Kind() != reflect.Bool {
		return "", nil
	}
	return fmt.Sprint(v.Interface()), nil
}

// jsonField finds a struct's field by its name in JSON, or a map's element.
func jsonField(v reflect.Value, name string) (reflect.Value, bool) {
	switch v.Kind() {
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return reflect.Value{}, false
		}
		if e := v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())); e.IsValid() {
			return e, true
		}
		return reflect.Zero(v.Type().Elem()), true
	case reflect.Struct:
	default:
		return reflect.Value{}, false
	}
	for n := range v.NumField() {
		f := v.Type().Field(n)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported():
		case tag == name:
			return v.Field(n), true
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct:
			if inner, ok := jsonField(v.Field(n), name); ok {
				return inner, true
			}
		}
	}
	return reflect.Value{}, false
}
