package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"kelson.dev/apiserver/resource"
)

// Prefixes of complete messages.
const (
	protobufMagic = "k8s\x00"
	cborTag       = "\xd9\xd9\xf7" // "self-described CBOR", RFC 8949 3.4.6
)

// Encode returns the bare encoding of a versioned object, whose apiVersion and kind must be set.
// The media type is JSON, protobuf or CBOR.
func Encode(media string, obj runtime.Object) ([]byte, error) {
	switch media {
	case resource.MediaProtobuf:
		m, ok := obj.(interface{ Marshal() ([]byte, error) })
		if !ok {
			return nil, fmt.Errorf("object %T does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message", obj)
		}
		return m.Marshal()
	case resource.MediaCBOR:
		if u, ok := obj.(runtime.Unstructured); ok {
			return cbor.Marshal(u.UnstructuredContent())
		}
		return cbor.Marshal(obj)
	default:
		if u, ok := obj.(runtime.Unstructured); ok {
			return json.Marshal(u.UnstructuredContent())
		}
		return json.Marshal(obj)
	}
}

// whole returns the complete message of a bare encoding.
func whole(media string, gvk schema.GroupVersionKind, bare []byte) ([][]byte, error) {
	switch media {
	case resource.MediaProtobuf:
		msg, err := envelope(gvk, bare)
		return [][]byte{msg}, err
	case resource.MediaCBOR:
		return [][]byte{[]byte(cborTag), bare}, nil
	default:
		return [][]byte{bare, []byte("\n")}, nil
	}
}

// envelope returns Kubernetes' protobuf message: a magic number and an Unknown with the kind.
func envelope(gvk schema.GroupVersionKind, raw []byte) ([]byte, error) {
	unknown := runtime.Unknown{TypeMeta: typeMeta(gvk), Raw: raw}
	msg := make([]byte, len(protobufMagic)+unknown.Size())
	n, err := unknown.MarshalTo(msg[copy(msg, protobufMagic):])
	return msg[:len(protobufMagic)+n], err
}

func typeMeta(gvk schema.GroupVersionKind) runtime.TypeMeta {
	return runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}
}

// shown returns the metadata of a list as it is encoded. Lists of custom kinds always have a
// continue token, even if it is empty.
func shown(meta metav1.ListMeta, gvk schema.GroupVersionKind, untyped []byte) any {
	if untyped != nil || gvk.Kind == "PartialObjectMetadataList" {
		return meta
	}
	return struct {
		Continue        string `json:"continue"`
		Remaining       *int64 `json:"remainingItemCount,omitempty"`
		ResourceVersion string `json:"resourceVersion"`
	}{meta.Continue, meta.RemainingItemCount, meta.ResourceVersion}
}

// typePrefix returns the beginning of an object's JSON.
func typePrefix(gvk schema.GroupVersionKind) []byte {
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, gvk.Kind, gvk.GroupVersion().String())
}

// list returns a list of bare encodings, without copying them.
func list(media string, gvk schema.GroupVersionKind, meta metav1.ListMeta, items [][]byte,
	untyped []byte) ([][]byte, error) {
	switch media {
	case resource.MediaProtobuf:
		return protobufList(gvk, meta, items)
	case resource.MediaCBOR:
		return cborList(gvk, shown(meta, gvk, untyped), items)
	default:
		return jsonList(gvk, shown(meta, gvk, untyped), items, untyped)
	}
}

// jsonListHead returns the beginning of a list, up to the value of items.
func jsonListHead(gvk schema.GroupVersionKind, meta any) ([]byte, error) {
	head, err := json.Marshal(struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Metadata   any    `json:"metadata"`
	}{gvk.Kind, gvk.GroupVersion().String(), meta})
	if err != nil {
		return nil, err
	}
	return append(head[:len(head)-1], `,"items":`...), nil
}

// MetadataBefore returns the JSON before the metadata of an object of kind gvk that has nothing
// else, and MetadataAfter is the JSON after it.
func MetadataBefore(gvk schema.GroupVersionKind) string {
	return `{"kind":"` + gvk.Kind + `","apiVersion":"` + gvk.GroupVersion().String() + `","metadata":`
}

// MetadataAfter is described at [MetadataBefore].
const MetadataAfter = "}"

// OnlyMetadata returns the JSON of an object of kind gvk that has only these metadata.
func OnlyMetadata(gvk schema.GroupVersionKind, metadata []byte) []byte {
	before := MetadataBefore(gvk)
	out := make([]byte, 0, len(before)+len(metadata)+len(MetadataAfter))
	return append(append(append(out, before...), metadata...), MetadataAfter...)
}

// metadataList returns a list of objects that have only these metadata, without copying them.
func metadataList(gvk schema.GroupVersionKind, meta metav1.ListMeta, metadata [][]byte) ([][]byte, error) {
	if len(metadata) == 0 {
		return jsonList(gvk, meta, nil, nil)
	}
	head, err := jsonListHead(gvk, meta)
	if err != nil {
		return nil, err
	}
	item := gvk
	item.Kind = strings.TrimSuffix(gvk.Kind, "List")
	before := MetadataBefore(item)
	next := []byte(MetadataAfter + "," + before)
	parts := append(make([][]byte, 0, 2*len(metadata)+2), append(append(head, "["...), before...))
	for i, m := range metadata {
		if i > 0 {
			parts = append(parts, next)
		}
		parts = append(parts, m)
	}
	return append(parts, []byte(MetadataAfter+"]}\n")), nil
}

// jsonList returns a list of JSON items. The parameter without is the beginning of items: an
// opening brace, apiVersion and kind. In items that begin with it, only the brace is kept.
func jsonList(gvk schema.GroupVersionKind, meta any, items [][]byte, without []byte) ([][]byte, error) {
	head, err := jsonListHead(gvk, meta)
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, 0, 2*len(items)+2)
	parts = append(parts, append(head, "["...))
	comma, brace, both := []byte(","), []byte("{"), []byte(",{")
	for i, item := range items {
		rest, ok := bytes.CutPrefix(item, without)
		switch {
		case ok && len(without) > 0 && i == 0:
			parts = append(parts, brace, rest)
		case ok && len(without) > 0:
			parts = append(parts, both, rest)
		case i == 0:
			parts = append(parts, item)
		default:
			parts = append(parts, comma, item)
		}
	}
	if len(items) == 0 && gvk.Kind == "PartialObjectMetadataList" {
		// as Kubernetes encodes a nil slice
		return append(parts[:0], append(head, "null}\n"...)), nil
	}
	return append(parts, []byte("]}\n")), nil
}

// protobufList relies on the field numbers of all list types: metadata is field 1, items are field
// 2.
func protobufList(gvk schema.GroupVersionKind, meta metav1.ListMeta, items [][]byte) ([][]byte, error) {
	metadata, err := meta.Marshal()
	if err != nil {
		return nil, err
	}
	size := fieldSize(len(metadata))
	for _, item := range items {
		size += fieldSize(len(item))
	}
	kind := typeMeta(gvk)
	head := append([]byte(protobufMagic), field(1, kind.Size())...)
	typed, err := kind.Marshal()
	if err != nil {
		return nil, err
	}
	head = append(head, typed...)
	head = append(head, field(2, size)...) // Unknown.raw
	head = append(append(head, field(1, len(metadata))...), metadata...)
	parts := append(make([][]byte, 0, 2*len(items)+2), head)
	for _, item := range items {
		parts = append(parts, field(2, len(item)), item)
	}
	return append(parts, append(field(3, 0), field(4, 0)...)), nil // contentEncoding, contentType
}

// field returns the tag and length of a length-delimited protobuf field.
func field(number, size int) []byte {
	return binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(size))
}

func fieldSize(size int) int { return len(field(1, size)) + size }

func cborList(gvk schema.GroupVersionKind, meta any, items [][]byte) ([][]byte, error) {
	head := append([]byte(cborTag), 0xa4) // a map of four
	for _, v := range []any{"kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String(), "metadata", meta, "items"} {
		b, err := cbor.Marshal(v)
		if err != nil {
			return nil, err
		}
		head = append(head, b...)
	}
	// an array with a length of four bytes
	head = binary.BigEndian.AppendUint32(append(head, 0x9a), uint32(len(items)))
	return append([][]byte{head}, items...), nil
}
