package client

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const listSuffix = "List"

// KindOf returns the kind of an object or list. Dynamic and metadata-only objects carry their kind;
// for other types it comes from the scheme, except for the types of Kubernetes, which need no
// scheme. If a type is registered under several kinds, the object must have its kind set.
func KindOf(obj runtime.Object, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	carried := obj.GetObjectKind().GroupVersionKind()
	switch obj := obj.(type) {
	case *Items:
		kind, err := KindOf(obj.prototype, scheme)
		kind.Kind += listSuffix
		return kind, err
	case runtime.Unstructured, *Encoded, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		if carried.Kind == "" || carried.Version == "" {
			return carried, fmt.Errorf("%w: set apiVersion and kind of the %T; in generic calls, pass client.OfKind",
				ErrNoKind, obj)
		}
		return carried, nil
	}
	if kind, ok := builtinKind(obj); ok && (carried.Kind == "" || carried == kind || !scheme.Recognizes(carried)) {
		return kind, nil
	}
	kinds, _, err := scheme.ObjectKinds(obj)
	if err != nil {
		return carried, fmt.Errorf("%w: %w", ErrNoKind, err)
	}
	for _, kind := range kinds {
		if kind == carried || len(kinds) == 1 {
			return kind, nil
		}
	}
	return carried, fmt.Errorf("%w: %T is registered as %v: set its apiVersion and kind", ErrNoKind, obj, kinds)
}

// ItemOf returns a new item for a list, with its kind set.
func ItemOf(list ObjectList, scheme *runtime.Scheme) (Object, error) {
	kind, err := KindOf(list, scheme)
	if err != nil {
		return nil, err
	}
	if item, ok := itemKindOf(kind); ok {
		kind = item
	}
	var item Object
	switch list := list.(type) {
	case *Items:
		item = list.newItem()
	case runtime.Unstructured:
		item = &unstructured.Unstructured{}
	case *metav1.PartialObjectMetadataList:
		item = &metav1.PartialObjectMetadata{}
	default:
		if item, err = typedItemOf(list, kind, scheme); err != nil {
			return nil, fmt.Errorf("item of %T: %w", list, err)
		}
	}
	item.GetObjectKind().SetGroupVersionKind(kind)
	return item, nil
}

func typedItemOf(list ObjectList, kind schema.GroupVersionKind, scheme *runtime.Scheme) (Object, error) {
	obj, err := scheme.New(kind)
	if runtime.IsNotRegisteredError(err) {
		obj, err = newItemOf(list)
	}
	if err != nil {
		return nil, err
	}
	item, ok := obj.(Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an Object", obj)
	}
	return item, nil
}

// newItemOf returns a new value of the item type of a Go list type.
func newItemOf(list ObjectList) (runtime.Object, error) {
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, err
	}
	item := reflect.TypeOf(ptr).Elem().Elem()
	if item.Kind() == reflect.Pointer {
		item = item.Elem()
	}
	obj, ok := reflect.New(item).Interface().(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not a runtime.Object", item)
	}
	return obj, nil
}

// FillList replaces the items of a list. The list takes ownership of objs, which must have its item
// type.
func FillList(list ObjectList, objs []Object) error {
	switch list := list.(type) {
	case *Items:
		list.Items = objs
		return nil
	case *unstructured.UnstructuredList:
		list.Items = make([]unstructured.Unstructured, 0, len(objs))
		for _, obj := range objs {
			u, ok := obj.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("fill %T: item is a %T", list, obj)
			}
			list.Items = append(list.Items, *u)
		}
		return nil
	}
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return fmt.Errorf("fill %T: %w", list, err)
	}
	slice := reflect.ValueOf(ptr).Elem()
	filled := reflect.MakeSlice(slice.Type(), 0, len(objs))
	for _, obj := range objs {
		v := reflect.ValueOf(obj)
		if slice.Type().Elem().Kind() != reflect.Pointer {
			v = v.Elem()
		}
		if !v.Type().AssignableTo(slice.Type().Elem()) {
			return fmt.Errorf("fill %T: item is a %T", list, obj)
		}
		filled = reflect.Append(filled, v)
	}
	slice.Set(filled)
	return nil
}

func itemKindOf(list schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	kind, ok := strings.CutSuffix(list.Kind, listSuffix)
	list.Kind = kind
	return list, ok && kind != ""
}

// isList reports whether a value is a list. Unstructured has the methods of a list, too, and is an
// object.
func isList(obj runtime.Object) bool {
	_, list := obj.(ObjectList)
	_, object := obj.(Object)
	return list && !object
}

// setItemKinds sets the kind of each item of a typed list; servers leave it out.
func setItemKinds(list runtime.Object, kind schema.GroupVersionKind) {
	if !isList(list) {
		return // an object whose kind happens to end in List
	}
	// EachListItem returns an error only if the function does, or if there are no items.
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(kind)
		return nil
	})
}

func isMetadataOnly(obj runtime.Object) bool {
	switch obj := obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return true
	case *Items:
		return isMetadataOnly(obj.prototype)
	case *Encoded:
		return obj.like != nil && isMetadataOnly(obj.like)
	}
	return false
}
