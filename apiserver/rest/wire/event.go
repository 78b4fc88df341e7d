package wire

import (
	"encoding/binary"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/apiserver/resource"
)

// StreamType returns the Content-Type of a watch in a format.
func (f Format) StreamType() string {
	switch f.Media {
	case resource.MediaCBOR:
		return mediaCBORSequence
	case resource.MediaJSON:
		return f.Media
	}
	return f.Media + ";stream=watch"
}

// EventPrefix is the size in bytes of the length at the start of a protobuf frame. Frames that are
// sent as WebSocket messages do not need it.
const EventPrefix = 4

// Event returns one frame of a watch for the bare encoding of the event's object.
func Event(media string, typ watch.EventType, gvk schema.GroupVersionKind, bare []byte) ([]byte, error) {
	switch media {
	case resource.MediaProtobuf:
		msg, err := envelope(gvk, bare)
		if err != nil {
			return nil, err
		}
		event := metav1.WatchEvent{Type: string(typ), Object: runtime.RawExtension{Raw: msg}}
		frame := binary.BigEndian.AppendUint32(nil, uint32(event.Size()))
		raw, err := event.Marshal()
		return append(frame, raw...), err
	case resource.MediaCBOR:
		frame := append([]byte(cborTag), 0xa2) // a map of two
		for _, v := range []string{"type", string(typ), "object"} {
			b, err := cbor.Marshal(v)
			if err != nil {
				return nil, err
			}
			frame = append(frame, b...)
		}
		return append(frame, bare...), nil
	default:
		frame := make([]byte, 0, len(bare)+len(typ)+24)
		frame = append(append(append(frame, `{"type":"`...), typ...), `","object":`...)
		return append(append(frame, bare...), "}\n"...), nil
	}
}
