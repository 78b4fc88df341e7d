package wire

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/apiserver/resource"
)

// EventAround returns the parts of a frame of [Event] before and after the bare encoding of an
// object of size bytes, for senders that do not copy the object.
func EventAround(media string, typ watch.EventType, gvk schema.GroupVersionKind,
	size int) (before, after []byte, err error) {
	switch media {
	case resource.MediaProtobuf:
		return protobufAround(typ, gvk, size)
	case resource.MediaCBOR:
		before, err = Event(media, typ, gvk, nil)
		return before, nil, err
	default:
		before = make([]byte, 0, len(typ)+24)
		before = append(append(append(before, `{"type":"`...), typ...), `","object":`...)
		return before, []byte("}\n"), nil
	}
}

// The tags of protobuf's fields 1 and 2 with lengths.
const (
	tag1 = 1<<3 | 2
	tag2 = 2<<3 | 2
)

// protobufAround builds the nested messages of a frame, innermost first:
//
//	length │ WatchEvent{1: type, 2: RawExtension{1: "k8s\x00" Unknown{1: TypeMeta, 2: object, 3 and 4: empty}}}
func protobufAround(typ watch.EventType, gvk schema.GroupVersionKind, size int) (before, after []byte, err error) {
	meta := runtime.Unknown{TypeMeta: typeMeta(gvk)}
	unknown, err := meta.Marshal() // without an object
	if err != nil {
		return nil, nil, err
	}
	const empty = 4 // the two fields after the object
	unknown, after = unknown[:len(unknown)-empty], unknown[len(unknown)-empty:]
	inner := append([]byte(protobufMagic), unknown...)
	inner = binary.AppendUvarint(append(inner, tag2), uint64(size))
	message := len(inner) + size + empty
	extension := binary.AppendUvarint([]byte{tag1}, uint64(message))
	event := binary.AppendUvarint([]byte{tag1}, uint64(len(typ)))
	event = append(event, typ...)
	event = binary.AppendUvarint(append(event, tag2), uint64(len(extension)+message))
	length := len(event) + len(extension) + message
	before = binary.BigEndian.AppendUint32(make([]byte, 0, EventPrefix+length-size), uint32(length))
	before = append(append(append(before, event...), extension...), inner...)
	return before, after, nil
}
