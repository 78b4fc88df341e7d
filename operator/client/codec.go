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

	"kelson.dev/internal/jsondecode"
	"kelson.dev/internal/tree"
)

// A codec decodes one wire encoding. The client's Accept header depends on the Go type (see
// acceptOf), and the server chooses: it can send JSON for every kind, and protobuf for built-in
// kinds.
type codec interface {
	// decode replaces the value that into points to, and sets its kind. On an error, into is
	// unchanged.
	decode(data []byte, into runtime.Object, kind schema.GroupVersionKind) error
	// decodeNew decodes into a new value, whose content is undefined after an error.
	decodeNew(data []byte, into runtime.Object, kind schema.GroupVersionKind) error
	// kindIn returns the kind in an encoded object; empty if there is none.
	kindIn(data []byte) metav1.TypeMeta
	// headIn returns the namespace, name, uid and resourceVersion of an encoded object.
	headIn(data []byte) (metav1.ObjectMeta, error)
	// continueIn returns the continue token of an encoded list, empty on the last page. known may
	// be true even if data is only the beginning of the list.
	continueIn(data []byte) (token string, known bool)
	// frames returns a reader for the events of a watch.
	frames(io.Reader) frames
}

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// acceptOf returns the Accept header for an object of what's type, or for a list.
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

// codecOf returns the codec of a response. Decoded values share equal parts through share, if it is
// not nil.
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

// A document is an encoded response and its codec.
type document struct {
	data []byte
	codec
}

type jsonCodec struct{ share *sharing }

// encode writes obj as an object of the given kind and ignores its own apiVersion and kind. It does
// not change obj.
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
	// A new value, so that fields missing from the response don't keep their previous values.
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
	case *unstructured.Unstructured, *Encoded: // decode handles these
	default:
		if jsondecode.Decode(data, into, j.structSharing(), notePartial) == nil {
			into.GetObjectKind().SetGroupVersionKind(kind)
			j.share.object(into)
			return nil
		}
	}
	return j.decode(data, into, kind)
}

func (j jsonCodec) structSharing() jsondecode.Sharing {
	if j.share == nil {
		return nil
	}
	return j.share
}

// decodeStruct decodes data into a new value of type t and returns a pointer to it.
func decodeStruct(data []byte, t reflect.Type, share jsondecode.Sharing) (any, error) {
	fresh := reflect.New(t).Interface()
	if jsondecode.Decode(data, fresh, share, notePartial) == nil {
		return fresh, nil
	}
	fresh = reflect.New(t).Interface()
	err := unmarshal(data, fresh)
	if err == nil {
		notePartialOf(data, fresh)
	}
	return fresh, err
}

// replace copies fresh to into, and sets its kind and the kind of its items, which servers omit.
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
	// The kind is empty if the response has none. It is usually in the first bytes.
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

// withKind returns obj with the given kind: obj itself if it already has the kind, otherwise a
// shallow copy, because obj may be shared.
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
