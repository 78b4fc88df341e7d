package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/internal/protodecode"
)

// message is implemented by types with a protobuf encoding: the built-in ones, and metadata.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// hasProtobuf reports whether a value of what's type, or its items, can be decoded from protobuf.
func hasProtobuf(what runtime.Object) bool {
	switch what := what.(type) {
	case *Items:
		return hasProtobuf(what.prototype)
	case *Encoded:
		return what.like != nil && hasProtobuf(what.like)
	}
	_, ok := what.(message)
	return ok
}

// protobufCodec is Kubernetes' protobuf encoding: a four-byte prefix, then a runtime.Unknown with
// the message of the object.
type protobufCodec struct{ share *sharing }

const magic = "k8s\x00"

// Field numbers of runtime.Unknown, runtime.TypeMeta, lists and metadata.
const (
	unknownType, unknownRaw, unknownEncoding           = 1, 2, 3
	typeVersion, typeKind                              = 1, 2
	listMeta, listItem                                 = 1, 2
	objectMeta                                         = 1
	metaName, metaNamespace, metaUID, metaVersionField = 1, 3, 5, 6
)

var errNotProtobuf = errors.New("not in Kubernetes' protobuf encoding")

func (protobufCodec) encode(obj runtime.Object, kind schema.GroupVersionKind) ([]byte, error) {
	m, ok := obj.(message) // without the kind
	if !ok {
		return nil, fmt.Errorf("encode %s: %T has no protobuf encoding", kind.Kind, obj)
	}
	raw, err := m.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind.Kind, err)
	}
	return envelope(raw, kind), nil
}

func envelope(raw []byte, kind schema.GroupVersionKind) []byte {
	version, name := kind.GroupVersion().String(), kind.Kind
	head := make([]byte, 0, len(version)+len(name)+8)
	head = protowire.AppendString(protowire.AppendTag(head, typeVersion, protowire.BytesType), version)
	head = protowire.AppendString(protowire.AppendTag(head, typeKind, protowire.BytesType), name)
	data := make([]byte, 0, len(magic)+len(head)+len(raw)+16)
	data = append(data, magic...)
	data = protowire.AppendBytes(protowire.AppendTag(data, unknownType, protowire.BytesType), head)
	return protowire.AppendBytes(protowire.AppendTag(data, unknownRaw, protowire.BytesType), raw)
}

// open returns the message in the envelope, which shares memory with data, and its kind.
func open(data []byte) (raw []byte, kind metav1.TypeMeta, err error) {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return nil, kind, errNotProtobuf
	}
	err = eachField(data[len(magic):], func(n protowire.Number, v []byte) error {
		switch n {
		case unknownType:
			return eachField(v, func(n protowire.Number, v []byte) error {
				switch n {
				case typeVersion:
					kind.APIVersion = string(v)
				case typeKind:
					kind.Kind = string(v)
				}
				return nil
			})
		case unknownRaw:
			raw = v
		case unknownEncoding:
			if len(v) > 0 {
				return fmt.Errorf("unknown encoding %q", v)
			}
		}
		return nil
	})
	return raw, kind, err
}

// openBegun returns the available part of the message in an envelope. data may be only the
// beginning of the envelope.
func openBegun(data []byte) (raw []byte, isThere bool) {
	for data, isThere = bytes.CutPrefix(data, []byte(magic)); isThere; {
		number, kind, n := protowire.ConsumeTag(data)
		if number == unknownRaw && kind == protowire.BytesType {
			size, m := protowire.ConsumeVarint(data[n:])
			if m < 0 {
				break
			}
			data = data[n+m:]
			return data[:min(uint64(len(data)), size)], true
		}
		if _, _, n = protowire.ConsumeField(data); n < 0 {
			break
		}
		data = data[n:]
	}
	return nil, false
}

// eachField calls yield with every length-delimited field of a message.
func eachField(data []byte, yield func(protowire.Number, []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
				return protowire.ParseError(n)
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if err := yield(number, value); err != nil {
			return err
		}
	}
	return nil
}

func (p protobufCodec) decode(data []byte, into runtime.Object, kind schema.GroupVersionKind) error {
	raw, _, err := open(data)
	if err == nil {
		err = p.decodeRaw(data, raw, into, kind)
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", kind.Kind, err)
	}
	return nil
}

func (p protobufCodec) decodeRaw(data, raw []byte, into runtime.Object, kind schema.GroupVersionKind) error {
	switch into := into.(type) {
	case *Encoded:
		return into.fillProtobuf(data, raw, kind)
	case *Items:
		return into.decodeProtobuf(p, raw, kind)
	}
	fresh, err := decodeMessage(raw, reflect.TypeOf(into).Elem(), p.share.texts())
	if err != nil {
		return err
	}
	replace(into, fresh, kind)
	p.share.object(into)
	return nil
}

// decodeMessage decodes a message into a new value of type t and returns a pointer to it.
func decodeMessage(raw []byte, t reflect.Type, share protodecode.Sharing) (runtime.Object, error) {
	fresh := reflect.New(t).Interface().(runtime.Object)
	if ok, lacks := protodecode.Read(raw, fresh, share); ok {
		if lacks {
			noteLacking(fresh)
		}
		return fresh, nil
	}
	fresh = reflect.New(t).Interface().(runtime.Object)
	m, ok := fresh.(message)
	if !ok {
		return nil, fmt.Errorf("%T has no protobuf encoding", fresh)
	}
	err := m.Unmarshal(raw)
	if sized, ok := fresh.(interface{ Size() int }); ok && err == nil && sized.Size() != len(raw) {
		noteLacking(fresh)
	}
	return fresh, err
}

func (p protobufCodec) decodeNew(data []byte, into runtime.Object, kind schema.GroupVersionKind) error {
	raw, _, err := open(data)
	if err != nil {
		return fmt.Errorf("decode %s: %w", kind.Kind, err)
	}
	return p.decodeRawNew(data, raw, into, kind)
}

// decodeRawNew is decodeRaw into a new value.
func (p protobufCodec) decodeRawNew(data, raw []byte, into runtime.Object, kind schema.GroupVersionKind) error {
	switch into.(type) {
	case *Encoded, *Items: // decodeRaw handles these
	default:
		if ok, lacks := protodecode.Read(raw, into, p.share.all()); ok {
			if lacks {
				noteLacking(into)
			}
			into.GetObjectKind().SetGroupVersionKind(kind)
			return nil
		}
	}
	return p.decodeRaw(data, raw, into, kind)
}

func (protobufCodec) kindIn(data []byte) metav1.TypeMeta {
	_, kind, _ := open(data) // the kind is empty if the response has none
	return kind
}

// maxFrame bounds the accepted length of a frame; no object is nearly as large.
const maxFrame = 64 << 20

// frames returns a reader of protobuf events, each of which follows its length in four bytes.
func (protobufCodec) frames(r io.Reader) frames { return protobufFrames{newFrameReader(r)} }

type protobufFrames struct{ in *frameReader }

func (f protobufFrames) more() bool {
	unread := f.in.buf[f.in.begin:f.in.end]
	return len(unread) >= 4 && uint64(len(unread)-4) >= uint64(binary.BigEndian.Uint32(unread))
}

func (f protobufFrames) next() (metav1.WatchEvent, error) {
	var event metav1.WatchEvent
	head, err := f.in.next(4)
	if err != nil {
		return event, err
	}
	length := binary.BigEndian.Uint32(head)
	if length > maxFrame {
		return event, fmt.Errorf("watch frame of %d bytes exceeds the limit", length)
	}
	frame, err := f.in.next(int(length))
	if err != nil {
		return event, err
	}
	err = eachField(frame, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			event.Type = eventType(v)
		case 2:
			return eachField(v, func(n protowire.Number, v []byte) error {
				if n == 1 {
					event.Object.Raw = v
				}
				return nil
			})
		}
		return nil
	})
	return event, err
}
