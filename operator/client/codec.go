package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// A codec is one encoding of the wire. JSON serves every kind; an encoding for the built-in kinds alone would be chosen by
// kind where a request is made.
type codec interface {
	// contentType is that of bodies; accept is what to ask for, as metadata only where wanted.
	contentType() string
	accept(metadataOnly, list bool) string
	// encode writes obj as an object of that kind, whatever its own kind fields say. obj is not changed.
	encode(obj runtime.Object, kind schema.GroupVersionKind) ([]byte, error)
	// decode replaces what into points to, and sets its kind; into is as it was on an error.
	decode(data []byte, into runtime.Object, kind schema.GroupVersionKind) error
	// unmarshal reads a plain document.
	unmarshal(data []byte, into any) error
	// frames reads the events of a watch.
	frames(io.Reader) func() (metav1.WatchEvent, error)
}

type jsonCodec struct{}

func (jsonCodec) contentType() string { return "application/json" }

func (jsonCodec) accept(metadataOnly, list bool) string {
	switch {
	case metadataOnly && list:
		return "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	case metadataOnly:
		return "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	}
	return "application/json"
}

func (jsonCodec) encode(obj runtime.Object, kind schema.GroupVersionKind) ([]byte, error) {
	data, err := json.Marshal(withKind(obj, kind))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind.Kind, err)
	}
	return data, nil
}

func (j jsonCodec) decode(data []byte, into runtime.Object, kind schema.GroupVersionKind) error {
	if err := j.decodeAny(data, into, kind); err != nil {
		return fmt.Errorf("decode %s: %w", kind.Kind, err)
	}
	return nil
}

func (j jsonCodec) decodeAny(data []byte, into runtime.Object, kind schema.GroupVersionKind) error {
	switch into := into.(type) {
	case *unstructured.Unstructured:
		var content map[string]any
		if err := j.unmarshal(data, &content); err != nil {
			return err
		}
		into.Object = content
		into.SetGroupVersionKind(kind)
		return nil
	case *unstructured.UnstructuredList:
		var fresh unstructured.UnstructuredList
		if err := fresh.UnmarshalJSON(data); err != nil {
			return err
		}
		*into = fresh
		return nil
	case *Items:
		return into.decode(j, data, kind)
	}
	// A fresh value: fields that the answer does not have must not survive from what was there before.
	fresh := reflect.New(reflect.TypeOf(into).Elem())
	if err := j.unmarshal(data, fresh.Interface()); err != nil {
		return err
	}
	fresh.Interface().(runtime.Object).GetObjectKind().SetGroupVersionKind(kind)
	reflect.ValueOf(into).Elem().Set(fresh.Elem())
	if itemKind, ok := itemKindOf(kind); ok {
		setItemKinds(into, itemKind)
	}
	return nil
}

func (jsonCodec) unmarshal(data []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

func (jsonCodec) frames(r io.Reader) func() (metav1.WatchEvent, error) {
	decoder := json.NewDecoder(r)
	return func() (metav1.WatchEvent, error) {
		var frame struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		err := decoder.Decode(&frame)
		return metav1.WatchEvent{Type: frame.Type, Object: runtime.RawExtension{Raw: bytes.TrimSpace(frame.Object)}}, err
	}
}

// withKind is obj with that kind: itself if it says so already, otherwise a shallow copy, because obj may be shared.
func withKind(obj runtime.Object, kind schema.GroupVersionKind) runtime.Object {
	if obj.GetObjectKind().GroupVersionKind() == kind {
		return obj
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content := make(map[string]any, len(u.Object)+2)
		for k, v := range u.Object {
			content[k] = v
		}
		u = &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(kind)
		return u
	}
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer {
		return obj
	}
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	obj = c.Interface().(runtime.Object)
	obj.GetObjectKind().SetGroupVersionKind(kind)
	return obj
}
