package client

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"kelson.dev/operator/internal/structs"
	"kelson.dev/operator/tree"
)

// A codec reads one encoding of the wire. What is asked for depends on the Go type (see acceptOf), what comes is the server's choice:
// JSON serves every kind, protobuf those that are built in.
type codec interface {
	// decode replaces what into points to, and sets its kind; into is as it was on an error.
	decode(data []byte, into runtime.Object, kind schema.GroupVersionKind) error
	// decodeNew is decode into what is new, and of no use after an error.
	decodeNew(data []byte, into runtime.Object, kind schema.GroupVersionKind) error
	// kindIn is what an encoded object says it is; empty if it says nothing.
	kindIn(data []byte) metav1.TypeMeta
	// headIn is the namespace, name, uid and resourceVersion of an encoded object.
	headIn(data []byte) (metav1.ObjectMeta, error)
	// continueIn is the token of the page behind an encoded list, empty if there is none; it may be known from the beginning of the list alone.
	continueIn(data []byte) (token string, known bool)
	// frames reads the events of a watch.
	frames(io.Reader) frames
}

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// acceptOf is what to ask for to get what: an object of that type, or a list if what is asked is a collection.
func acceptOf(what runtime.Object, list bool) string {
	as := ""
	if isMetadataOnly(what) {
		as = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		if list {
			as = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		}
	}
	accept := jsonType
	if as != "" {
		accept = jsonType + as + "," + jsonType
	}
	if hasProtobuf(what) {
		return protobufType + as + "," + accept
	}
	return accept
}

// codecOf is the codec of an answer. Values that it decodes share what share has, if that is not nil.
func codecOf(resp *http.Response, share *sharing) codec {
	if isProtobuf(resp) {
		return protobufCodec{share}
	}
	return jsonCodec{share}
}

func isProtobuf(resp *http.Response) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == protobufType
}

// a document is one answer, and how it is read.
type document struct {
	data []byte
	codec
}

type jsonCodec struct{ share *sharing }

// encode writes obj as an object of that kind, whatever its own kind fields say. obj is not changed.
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
		content, err := parseObject(data, j.share)
		if err != nil {
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
	case *Encoded:
		return into.fillJSON(data, kind)
	case *Items:
		return into.decodeJSON(data, kind, j.share)
	}
	// A fresh value: fields that the answer does not have must not survive from what was there before.
	fresh, err := decodeStruct(data, reflect.TypeOf(into).Elem(), j.structSharing())
	if err != nil {
		return err
	}
	replace(into, fresh.(runtime.Object), kind)
	j.share.object(into)
	return nil
}

func (j jsonCodec) decodeNew(data []byte, into runtime.Object, kind schema.GroupVersionKind) error {
	switch into.(type) {
	case *unstructured.Unstructured, *Encoded: // these have ways of their own
	default:
		if structs.Decode(data, into, j.structSharing(), notePartial) == nil {
			into.GetObjectKind().SetGroupVersionKind(kind)
			j.share.object(into)
			return nil
		}
	}
	return j.decode(data, into, kind)
}

func (j jsonCodec) structSharing() structs.Sharing {
	if j.share == nil {
		return nil
	}
	return j.share
}

// decodeStruct is a pointer to a new value of a type, read from data.
func decodeStruct(data []byte, t reflect.Type, share structs.Sharing) (any, error) {
	fresh := reflect.New(t).Interface()
	if structs.Decode(data, fresh, share, notePartial) == nil {
		return fresh, nil
	}
	fresh = reflect.New(t).Interface()
	err := unmarshal(data, fresh)
	if err == nil {
		notePartialOf(data, fresh)
	}
	return fresh, err
}

// replace makes into what fresh is, and sets its kind and that of its items: servers leave the latter out.
func replace(into, fresh runtime.Object, kind schema.GroupVersionKind) {
	fresh.GetObjectKind().SetGroupVersionKind(kind)
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(fresh).Elem())
	if itemKind, ok := itemKindOf(kind); ok {
		setItemKinds(into, itemKind)
	}
}

func (jsonCodec) kindIn(data []byte) metav1.TypeMeta {
	var head metav1.TypeMeta
	p := tree.Parser{Data: data}
	// An answer that says no kind is of none. It mostly says so in the first bytes.
	_ = p.Each(func(key []byte) (err error) {
		switch string(key) {
		case "kind":
			head.Kind, err = p.Text()
		case "apiVersion":
			head.APIVersion, err = p.Text()
		default:
			err = p.Skip()
		}
		if err == nil && head.Kind != "" && head.APIVersion != "" {
			err = errEnough
		}
		return err
	})
	return head
}

func unmarshal(data []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
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
