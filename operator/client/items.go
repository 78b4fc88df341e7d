package client

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Items is a list of any kind, for code that knows an object but not the Go type of its lists. Each item is an object of its
// own, of the prototype's type.
type Items struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Object

	prototype Object
}

// NewItems is an empty list of objects like prototype: of its type, and of its kind where the type does not tell the kind.
func NewItems(prototype Object) *Items { return &Items{prototype: prototype} }

// DeepCopyObject copies the list and its items.
func (l *Items) DeepCopyObject() runtime.Object {
	c := &Items{TypeMeta: l.TypeMeta, prototype: l.prototype, Items: make([]Object, len(l.Items))}
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	for i, item := range l.Items {
		c.Items[i] = item.DeepCopyObject().(Object)
	}
	return c
}

func (l *Items) newItem() Object {
	item := reflect.New(reflect.TypeOf(l.prototype).Elem()).Interface().(Object)
	item.GetObjectKind().SetGroupVersionKind(l.prototype.GetObjectKind().GroupVersionKind())
	return item
}

func (l *Items) decode(j jsonCodec, data []byte, kind schema.GroupVersionKind) error {
	itemKind, _ := itemKindOf(kind)
	var fresh struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           any `json:"items"`
	}
	var items []Object
	if _, dynamic := l.prototype.(*unstructured.Unstructured); dynamic {
		var contents []map[string]any
		fresh.Items = &contents
		if err := j.unmarshal(data, &fresh); err != nil {
			return err
		}
		for _, content := range contents {
			items = append(items, &unstructured.Unstructured{Object: content})
		}
	} else {
		// *[]*T: the decoder fills what the interface points to.
		slice := reflect.New(reflect.SliceOf(reflect.TypeOf(l.prototype)))
		fresh.Items = slice.Interface()
		if err := j.unmarshal(data, &fresh); err != nil {
			return err
		}
		items = make([]Object, slice.Elem().Len())
		for i := range items {
			items[i] = slice.Elem().Index(i).Interface().(Object)
		}
	}
	for _, item := range items {
		item.GetObjectKind().SetGroupVersionKind(itemKind)
	}
	l.TypeMeta, l.ListMeta, l.Items = fresh.TypeMeta, fresh.ListMeta, items
	l.SetGroupVersionKind(kind)
	return nil
}
