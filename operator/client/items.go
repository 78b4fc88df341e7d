package client

import (
	"encoding/json"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
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

func (l *Items) newItem() Object { return newItem(l.prototype) }

func (l *Items) decodeJSON(data []byte, kind schema.GroupVersionKind, share *sharing) error {
	itemKind, _ := itemKindOf(kind)
	var fresh struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           any `json:"items"`
	}
	var items []Object
	switch l.prototype.(type) {
	case *unstructured.Unstructured, *Encoded:
		var raw []json.RawMessage
		fresh.Items = &raw
		if err := unmarshal(data, &fresh); err != nil {
			return err
		}
		for _, one := range raw {
			item := l.newItem()
			if err := (jsonCodec{share}).decodeAny(one, item, itemKind); err != nil {
				return err
			}
			items = append(items, item)
		}
	default:
		// *[]*T: the decoder fills what the interface points to.
		slice := reflect.New(reflect.SliceOf(reflect.TypeOf(l.prototype)))
		fresh.Items = slice.Interface()
		if err := unmarshal(data, &fresh); err != nil {
			return err
		}
		items = make([]Object, slice.Elem().Len())
		for i := range items {
			items[i] = slice.Elem().Index(i).Interface().(Object)
			items[i].GetObjectKind().SetGroupVersionKind(itemKind)
			share.object(items[i])
		}
	}
	l.TypeMeta, l.ListMeta, l.Items = fresh.TypeMeta, fresh.ListMeta, items
	l.SetGroupVersionKind(kind)
	return nil
}

// decodeProtobuf knows that all lists have their metadata and items in the same two fields.
func (l *Items) decodeProtobuf(p protobufCodec, raw []byte, kind schema.GroupVersionKind) error {
	itemKind, _ := itemKindOf(kind)
	var head metav1.ListMeta
	var items []Object
	err := eachField(raw, func(n protowire.Number, v []byte) error {
		switch n {
		case listMeta:
			return head.Unmarshal(v)
		case listItem:
			item := l.newItem()
			items = append(items, item)
			if e, ok := item.(*Encoded); ok {
				return e.fillProtobuf(envelope(v, itemKind), v, itemKind)
			}
			return p.decodeRaw(nil, v, item, itemKind)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.ListMeta, l.Items = head, items
	l.SetGroupVersionKind(kind)
	return nil
}
