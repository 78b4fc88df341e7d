package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cborframes "k8s.io/apimachinery/pkg/runtime/serializer/cbor"
)

// decodeEvents decodes the frames of a watch. It omits bookmarks, whose time is the server's
// choice, except the one after the initial events.
func decodeEvents(base string, data []byte) (any, error) {
	var frames []any
	switch base {
	case "application/json":
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		for {
			var v any
			if err := d.Decode(&v); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			frames = append(frames, v)
		}
	case "application/vnd.kubernetes.protobuf":
		for len(data) >= 4 {
			size := int(binary.BigEndian.Uint32(data))
			if len(data) < 4+size {
				return nil, errors.New("the last frame is cut off")
			}
			v, err := decodeProtobufEvent(data[4 : 4+size])
			if err != nil {
				return nil, err
			}
			frames, data = append(frames, v), data[4+size:]
		}
	case "application/cbor-seq":
		r := cborframes.NewFramer().NewFrameReader(io.NopCloser(bytes.NewReader(data)))
		buf := make([]byte, len(data))
		for {
			n, err := r.Read(buf)
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			v, err := decodeCBOR(buf[:n])
			if err != nil {
				return nil, err
			}
			frames = append(frames, v)
		}
	default:
		return string(data), nil
	}
	var events []any
	for _, f := range frames {
		event, _ := f.(map[string]any)
		if event["type"] == "BOOKMARK" {
			obj, _ := event["object"].(map[string]any)
			meta, _ := obj["metadata"].(map[string]any)
			if annotations, _ := meta["annotations"].(map[string]any); annotations["k8s.io/initial-events-end"] == nil {
				continue
			}
		}
		events = append(events, f)
	}
	return events, nil
}

// decodeProtobufEvent decodes one frame: a WatchEvent whose object is a message with its own
// envelope.
func decodeProtobufEvent(data []byte) (any, error) {
	var event metav1.WatchEvent
	if err := event.Unmarshal(data); err != nil {
		return nil, err
	}
	obj, err := decodeProtobuf(event.Object.Raw)
	if err != nil {
		return nil, err
	}
	return map[string]any{"type": event.Type, "object": obj}, nil
}
