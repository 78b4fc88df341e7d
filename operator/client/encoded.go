package client

import (
	"bytes"
	"errors"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/tree"
)

// Encoded is an object as the server sent it. Only namespace, name, uid and resourceVersion of its
// metadata are set. It can be read, listed and watched, but not written. It is meant for caches
// that keep many objects and decode few. Decode returns the whole object. Each Encoded has its own
// Data, which the caller may keep and must not change while other goroutines read it.
type Encoded struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	// Data is JSON, or Kubernetes' protobuf, which begins with "k8s\x00".
	Data []byte

	like Object // the type that Data decodes into
}

// NewEncoded returns an empty Encoded for objects of the type and kind of prototype. The kind must
// be set.
func NewEncoded(prototype Object) *Encoded {
	e := &Encoded{like: prototype}
	e.SetGroupVersionKind(prototype.GetObjectKind().GroupVersionKind())
	return e
}

// DeepCopyObject copies the data too.
func (e *Encoded) DeepCopyObject() runtime.Object {
	c := *e
	c.ObjectMeta = *e.ObjectMeta.DeepCopy()
	c.Data = bytes.Clone(e.Data)
	return &c
}

// Decode decodes data, which is JSON or protobuf, into an object and sets its kind. It does not
// retain data.
func Decode(data []byte, into Object, kind schema.GroupVersionKind) error {
	if bytes.HasPrefix(data, []byte(magic)) {
		return protobufCodec{}.decode(data, into, kind)
	}
	return jsonCodec{}.decode(data, into, kind)
}

// Encode encodes an object for Decode, in the encoding that decodes fastest for its type.
func Encode(obj Object, kind schema.GroupVersionKind) ([]byte, error) {
	if hasProtobuf(obj) {
		return protobufCodec{}.encode(obj, kind)
	}
	return jsonCodec{}.encode(obj, kind)
}

// MetadataOf decodes only the metadata of encoded data, which is cheap.
func MetadataOf(data []byte) (*metav1.ObjectMeta, error) {
	if bytes.HasPrefix(data, []byte(magic)) {
		raw, _, err := open(data)
		if err != nil {
			return nil, err
		}
		m := &metav1.ObjectMeta{}
		return m, eachField(raw, func(n protowire.Number, v []byte) error {
			if n == objectMeta {
				return m.Unmarshal(v)
			}
			return nil
		})
	}
	p := tree.Parser{Data: data}
	raw, err := p.Find("metadata")
	if err != nil {
		return nil, err
	}
	m := &metav1.ObjectMeta{}
	return m, unmarshal(raw, m)
}

// fill sets all fields. The caller must pass a copy of data whose buffer is reused.
func (e *Encoded) fill(data []byte, head metav1.ObjectMeta, kind schema.GroupVersionKind) {
	e.Data, e.ObjectMeta = data, head
	e.SetGroupVersionKind(kind)
}

func (e *Encoded) fillJSON(data []byte, kind schema.GroupVersionKind) error {
	head, err := jsonCodec{}.headIn(data)
	if err != nil {
		return err
	}
	e.fill(bytes.Clone(data), head, kind)
	return nil
}

func (jsonCodec) headIn(data []byte) (metav1.ObjectMeta, error) {
	var head metav1.ObjectMeta
	p := tree.Parser{Data: data}
	raw, err := p.Find("metadata")
	if err != nil {
		return head, err
	}
	p = tree.Parser{Data: raw}
	err = p.Each(func(key []byte) error {
		var into *string
		switch string(key) {
		case "name":
			into = &head.Name
		case "namespace":
			into = &head.Namespace
		case "resourceVersion":
			into = &head.ResourceVersion
		case "uid":
			into = (*string)(&head.UID)
		default:
			return p.Skip()
		}
		*into, err = p.Text()
		return err
	})
	return head, err
}

func (e *Encoded) fillProtobuf(data, raw []byte, kind schema.GroupVersionKind) error {
	head, err := headOf(raw)
	if err != nil {
		return err
	}
	e.fill(bytes.Clone(data), head, kind)
	return nil
}

func (protobufCodec) headIn(data []byte) (metav1.ObjectMeta, error) {
	raw, _, err := open(data)
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	return headOf(raw)
}

var errEnough = errors.New("stop reading")

func headOf(raw []byte) (metav1.ObjectMeta, error) {
	var head metav1.ObjectMeta
	err := eachField(raw, func(n protowire.Number, v []byte) error {
		if n != objectMeta {
			return nil
		}
		err := eachField(v, func(n protowire.Number, v []byte) error {
			switch n {
			case metaName:
				head.Name = string(v)
			case metaNamespace:
				head.Namespace = string(v)
			case metaUID:
				head.UID = types.UID(v)
			case metaVersionField:
				head.ResourceVersion = string(v)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return head, err
}

// newItem returns an empty object of the type and kind of prototype.
func newItem(prototype Object) Object {
	if e, ok := prototype.(*Encoded); ok {
		return &Encoded{TypeMeta: e.TypeMeta, like: e.like}
	}
	item := reflect.New(reflect.TypeOf(prototype).Elem()).Interface().(Object)
	item.GetObjectKind().SetGroupVersionKind(prototype.GetObjectKind().GroupVersionKind())
	return item
}
