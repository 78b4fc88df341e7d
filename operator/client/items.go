package client

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/tree"
)

// Items is a list of any kind, for code that has an object but not the Go type of its list. Each
// item is a separate object of the prototype's type.
type Items struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Object

	prototype Object
}

// NewItems returns an empty list of objects of the type of prototype, and of its kind if the type
// does not determine the kind.
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
	head, raw, err := cutList(data)
	if err != nil {
		return err
	}
	items := make([]Object, len(raw))
	for n, one := range raw {
		items[n] = l.newItem()
		if err := (jsonCodec{share}).decodeNew(one, items[n], itemKind); err != nil {
			return err
		}
	}
	l.ListMeta, l.Items = head, items
	l.SetGroupVersionKind(kind)
	return nil
}

// cutList returns the metadata of a list and the encoded items.
func cutList(data []byte) (metav1.ListMeta, [][]byte, error) {
	var head metav1.ListMeta
	var items [][]byte
	p := tree.Parser{Data: data}
	err := p.Each(func(key []byte) error {
		switch string(key) {
		case "items":
			if p.Peek() == '[' {
				items = nil
				return p.Elements(func(raw []byte) { items = append(items, raw) })
			}
		case "metadata":
			p.Peek()
			begin := p.At
			if err := p.Skip(); err != nil {
				return err
			}
			return unmarshal(data[begin:p.At], &head)
		}
		return p.Skip()
	})
	if p.Peek(); err == nil && p.At == len(data) {
		return head, items, nil
	}
	var list struct {
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := unmarshal(data, &list); err != nil {
		return head, nil, err
	}
	items = make([][]byte, len(list.Items))
	for n, one := range list.Items {
		items[n] = one
	}
	return list.ListMeta, items, nil
}

// decodeProtobuf decodes any list: all of them have their metadata and items in the same two
// fields.
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
			return p.decodeRawNew(nil, v, item, itemKind)
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
