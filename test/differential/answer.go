package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// answer is a decoded response.
type answer struct {
	failed string // the error, if there was no response
	proto  string
	status int
	header http.Header
	body   any // a JSON value, decoded from any encoding, or else text
	took   time.Duration
}

// send sends a step to a side, again while the server says that its cache of a new kind is not
// ready. kube-apiserver does so on a busy machine; its clients repeat such requests too.
func (s *side) send(ctx context.Context, st *step, m *memory) *answer {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		a := s.sendOnce(ctx, st, m)
		if a.status != http.StatusTooManyRequests || at(a.body, "message") != "storage is (re)initializing" {
			return a
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return a
		}
	}
}

func (s *side) sendOnce(ctx context.Context, st *step, m *memory) *answer {
	var body io.Reader
	if st.body != nil {
		body = bytes.NewReader(st.body(m))
	}
	req, err := http.NewRequestWithContext(ctx, st.method, s.url+m.fill(st.path), body)
	if err != nil {
		return &answer{failed: err.Error()}
	}
	if st.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "differential/1")
	for key, value := range st.header {
		if value == "-" {
			req.Header.Del(key)
		} else {
			req.Header.Set(key, m.fill(value))
		}
	}
	begin := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return &answer{failed: err.Error()}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	a := &answer{proto: resp.Proto, status: resp.StatusCode, header: resp.Header, took: time.Since(begin)}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		a.failed = "read body: " + err.Error()
	}
	a.body = decode(resp.Header.Get("Content-Type"), data, st.watch && resp.StatusCode == http.StatusOK)
	return a
}

// decode decodes a body to a JSON value. If this fails, it returns a text with the error.
func decode(contentType string, data []byte, events bool) any {
	base, _, _ := strings.Cut(contentType, ";")
	v, err := any(nil), error(nil)
	switch {
	case len(data) == 0:
		return ""
	case events:
		v, err = decodeEvents(base, data)
	case base == "application/json":
		v, err = decodeJSON(data)
	case base == "application/yaml":
		if data, err = yaml.YAMLToJSON(data); err == nil {
			v, err = decodeJSON(data)
		}
	case base == "application/vnd.kubernetes.protobuf":
		v, err = decodeProtobuf(data)
	case strings.HasPrefix(base, "application/com.github.proto-openapi.spec."):
		v, err = decodeOpenAPI(base, data)
	case base == "application/cbor":
		v, err = decodeCBOR(data)
	case bytes.HasPrefix(data, []byte(`{"paths":`)): // the index of OpenAPI documents has no type
		v, err = decodeJSON(data)
	default:
		return string(data)
	}
	if err != nil {
		return fmt.Sprintf("can't be decoded: %v: %q", err, data[:min(len(data), 200)])
	}
	return v
}

func decodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if rest, _ := io.ReadAll(io.MultiReader(d.Buffered())); len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("data after the value: %q", rest[:min(len(rest), 100)])
	}
	return v, nil
}

func decodeCBOR(data []byte) (any, error) {
	var v any
	if err := cbor.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return decodeJSON(data)
}

// metaKinds has the kinds in which objects and lists can be represented.
var metaKinds = sync.OnceValue(func() *runtime.Scheme {
	kinds := runtime.NewScheme()
	kinds.AddKnownTypes(metav1.SchemeGroupVersion, &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{})
	return kinds
})

// decodeProtobuf decodes the envelope and the message in it, with the Go type of its kind.
func decodeProtobuf(data []byte) (any, error) {
	rest, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return nil, errors.New("no protobuf magic")
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(rest); err != nil {
		return nil, err
	}
	kind := schema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind)
	obj, err := metaKinds().New(kind)
	if err != nil {
		obj, err = scheme.Scheme.New(kind)
	}
	if err != nil {
		if obj, err = scheme.Scheme.New(schema.GroupVersionKind{Version: kind.Version, Kind: kind.Kind}); err != nil {
			return nil, err
		}
	}
	message, ok := obj.(interface{ Unmarshal([]byte) error })
	if !ok {
		return nil, fmt.Errorf("%T is not a protobuf message", obj)
	}
	if err := message.Unmarshal(unknown.Raw); err != nil {
		return nil, err
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	v, err := decodeJSON(text)
	if m, ok := v.(map[string]any); ok {
		m["(protobuf envelope)"] = fmt.Sprintf("%s %s %q %q", unknown.APIVersion, unknown.Kind, unknown.ContentEncoding,
			unknown.ContentType)
	}
	return v, err
}

// decodeOpenAPI decodes an OpenAPI document in protobuf. Its maps are lists of named entries, which
// have a random order.
func decodeOpenAPI(base string, data []byte) (any, error) {
	var doc proto.Message = &openapiv2.Document{}
	if strings.Contains(base, ".v3") {
		doc = &openapiv3.Document{}
	}
	if err := proto.Unmarshal(data, doc); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(doc)
	if err != nil {
		return nil, err
	}
	v, err := decodeJSON(text)
	return namedEntries(v), err
}

// namedEntries replaces each list of objects that have the members name and value by an object.
func namedEntries(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = namedEntries(value)
		}
		if text, ok := v["yaml"].(string); ok { // of an extension
			var value any
			if yaml.Unmarshal([]byte(text), &value) == nil {
				v["yaml"] = value
			}
		}
	case []any:
		byName := map[string]any{}
		for i, item := range v {
			v[i] = namedEntries(item)
			if name, ok := at(v[i], "name").(string); ok && at(v[i], "value") != nil {
				byName[name] = at(v[i], "value")
			}
		}
		if len(v) > 0 && len(byName) == len(v) {
			return byName
		}
	}
	return v
}
