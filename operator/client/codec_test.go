package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

const widgetText = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"default","uid":"u1",
	"resourceVersion":"7","labels":{"x":"y"},"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{".":{},"k:{\"name\":\"é\"}":{}}}}]},
	"spec":{"n":1,"big":9223372036854775808,"f":1.50,"e":1e3,"minus":-0,"t":true,"f2":false,"none":null,"list":[1,"two",{},[]],
	"text":"a\"b\\c\/\b\f\n\r\té\ud83d\ude00ü"}}`

// FuzzParseObject checks that the results and errors are those of apimachinery.
func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{widgetText, `{}`, ` { "a" : [ 1 , 2 ] } `, `{"a":01}`, `{"a":-}`, `{"a":1.}`,
		`{"a":"\x"}`, `{"a":"` + "\xff" + `"}`,
		`{"a":1,"a":2}`, `{"a":1e999}`, `{"a":"\ud800"}`, `[1]`, `{"a":1}x`, `{"a"`, `null`,
		`{"a":{"b":"` + "\x01" + `"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]any
		wantErr := unmarshal(data, &want)
		for name, share := range map[string]*sharing{"alone": nil, "strings": newSharing(false),
			"all": newSharing(true)} {
			for range 2 { // the second time with values shared from the first
				got, err := parseObject(data, share)
				if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %v %v, want %v %v", name, got, err, want, wantErr)
				}
			}
		}
	})
}

func TestSharing(t *testing.T) {
	read := func(immutable bool) (first, second map[string]any) {
		share := newSharing(immutable)
		first, err := parseObject([]byte(widgetText), share)
		require.NoError(t, err)
		second, err = parseObject([]byte(widgetText), share)
		require.NoError(t, err)
		return first, second
	}
	fields := func(content map[string]any) map[string]any {
		entries := content["metadata"].(map[string]any)["managedFields"].([]any)
		return entries[0].(map[string]any)["fieldsV1"].(map[string]any)
	}
	first, second := read(false)
	fields(first)["changed"] = true
	if fields(second)["changed"] != nil {
		t.Error("values that callers may modify are shared")
	}
	first, second = read(true)
	fields(first)["changed"] = true
	if fields(second)["changed"] == nil {
		t.Error("immutable values are not shared")
	}
}

// Frames are found in any formatting, and however the stream is split.
func TestFrames(t *testing.T) {
	long := strings.Repeat("x", 3*smallBuffer)
	for name, text := range map[string]string{
		"as servers write": `{"type":"ADDED","object":{"a":"1"}}` + "\n" + `{"type":"DELETED","object":{"b":{}}}` +
			"\n",
		"without line ends": `{"type":"ADDED","object":{"a":"1"}}{"type":"DELETED","object":{"b":{}}}`,
		"other order":       `{"object":{"a":"1"},"type":"ADDED"}` + "\n" + `{"type":"DELETED","object":{"b":{}}}`,
		"indented":          "{\n \"type\": \"ADDED\",\n \"object\": {\"a\":\"1\"}\n}\n{\"type\":\"DELETED\",\"object\":{\"b\":{}}}\n",
		"ends in next line": `{"type":"ADDED","object":{"a":"1"}` + "\n}\n" + `{"type":"DELETED","object":{"b":{}}` +
			"\n}\n",
		"braces in texts": `{"type":"ADDED","object":{"a":"}{{"}}` + "\n" + `{"type":"DELETED","object":{"b":{}}}` +
			"\n",
		"hidden by a text": `{"type":"ADDED","object":{"a":{"b":"}"}}` + "\n}\n" +
			`{"type":"DELETED","object":{"b":{}}` + "\n}\n",
		"from the second": `{"type":"ADDED","object":{"a":"1"}}` + "\n" + `{"type":"DELETED","object":{"b":{}}` +
			"\n}\n",
		"long": `{"type":"ADDED","object":{"a":"` + long + `"}}` + "\n" +
			`{"type":"DELETED","object":{"b":{}}}` + "\n",
	} {
		for how, r := range map[string]io.Reader{"at once": strings.NewReader(text),
			"byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
			in := jsonCodec{}.frames(r)
			var got []string
			for {
				event, err := in.next()
				if err == io.EOF {
					break
				}
				require.NoErrorf(t, err, "%s, %s", name, how)
				got = append(got, event.Type+" "+string(event.Object.Raw))
			}
			want := []string{`ADDED {"a":"1"}`, `DELETED {"b":{}}`}
			switch name {
			case "long":
				want[0] = `ADDED {"a":"` + long + `"}`
			case "braces in texts":
				want[0] = `ADDED {"a":"}{{"}`
			case "hidden by a text":
				want[0] = `ADDED {"a":{"b":"}"}}`
			}
			assert.Deepf(t, got, want, "%s, %s", name, how)
		}
	}
	for text, want := range map[string]error{``: io.EOF, "\n": io.EOF, `{"type":"ADD`: io.ErrUnexpectedEOF} {
		if _, err := (jsonCodec{}).frames(strings.NewReader(text)).next(); err != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

// Reading frames that are already buffered does not modify earlier ones.
func TestBufferedFrames(t *testing.T) {
	var text, proto strings.Builder
	var want []string
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for n := range 3000 {
		want = append(want, fmt.Sprintf(`{"metadata":{"name":"pod-%d"}}`, n))
		frame := fmt.Sprintf(`{"type":"ADDED","object":{"metadata":{"name":"pod-%d"}}}`+"\n", n)
		if n == 2000 {
			frame = strings.Replace(frame, ",", ",\n", 1)
		}
		text.WriteString(frame)
		raw, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", n)}}).Marshal()
		require.NoError(t, err)
		event, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: envelope(raw, kind)}}).
			Marshal()
		require.NoError(t, err)
		proto.Write(binary.BigEndian.AppendUint32(nil, uint32(len(event))))
		proto.Write(event)
	}
	for name, in := range map[string]frames{
		"json":     jsonCodec{}.frames(strings.NewReader(text.String())),
		"protobuf": protobufCodec{}.frames(strings.NewReader(proto.String())),
	} {
		var got []string
		largest := 0
		for err := error(nil); err == nil; {
			var batch []metav1.WatchEvent
			for len(batch) == 0 || in.more() {
				var event metav1.WatchEvent
				if event, err = in.next(); err != nil {
					break
				}
				batch = append(batch, event)
			}
			largest = max(largest, len(batch))
			for _, event := range batch {
				text := string(event.Object.Raw)
				if name == "protobuf" {
					var pod corev1.Pod
					require.NoError(t, (protobufCodec{}).decode(event.Object.Raw, &pod, kind))
					text = fmt.Sprintf(`{"metadata":{"name":"%s"}}`, pod.Name)
				}
				got = append(got, text)
			}
		}
		if !reflect.DeepEqual(got, want) || largest < 100 {
			t.Errorf("%s: %d frames, at most %d together", name, len(got), largest)
		}
	}
}

// chunks are the results of consecutive Reads.
type chunks []string

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; (*c)[0] == "" {
		*c = (*c)[1:]
	}
	return n, nil
}

// A large buffer is released.
func TestFrameBufferShrinks(t *testing.T) {
	event := `{"type":"ADDED","object":{"a":"1"}}` + "\n"
	text := chunks{`{"type":"ADDED","object":{"a":"` + strings.Repeat("x", 1<<20) + `"}}` + "\n"}
	for range forgetAfter + 2 {
		text = append(text, event)
	}
	in := newFrameReader(&text)
	for range 2 {
		if _, err := in.line(); err != nil || len(in.buf) <= 1<<20 {
			t.Fatalf("%v, buffer of %d", err, len(in.buf))
		}
	}
	for range forgetAfter + 1 {
		if line, err := in.line(); string(line) != event || err != nil {
			t.Fatalf("%q %v", line, err)
		}
	}
	assert.Equalf(t, len(in.buf), smallBuffer, "buffer")
}

// protobufServer responds in protobuf, with the serializer of Kubernetes' servers.
type protobufServer struct {
	t      *testing.T
	answer runtime.Object
	events []watch.Event
	asked  []string // Accept
	code   int
}

func (s *protobufServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.Header.Get("Accept"))
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var body bytes.Buffer
	if r.URL.Query().Get("watch") != "" {
		frames := protobuf.LengthDelimitedFramer.NewFrameWriter(&body)
		raw := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme)
		for _, e := range s.events {
			var object bytes.Buffer
			require.NoError(s.t, serializer.Encode(e.Object, &object))
			event := &metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: object.Bytes()}}
			require.NoError(s.t, raw.Encode(event, frames))
		}
	} else if err := serializer.Encode(s.answer, &body); err != nil {
		s.t.Fatal(err)
	}
	return &http.Response{StatusCode: s.code, Header: http.Header{"Content-Type": {protobufType}},
		Body: io.NopCloser(&body), Request: r}, nil
}

func newProtobuf(t *testing.T) (*protobufServer, Client) {
	s := &protobufServer{t: t, code: http.StatusOK}
	return s, newOver(t, s, metav1.APIResource{Name: "pods", Kind: "Pod", Namespaced: true},
		metav1.APIResource{Name: "widgets", Kind: "Widget", Namespaced: true})
}

// newOver returns a client with a transport that serves these resources in any group.
func newOver(t *testing.T, transport http.RoundTripper, resources ...metav1.APIResource) Client {
	mapper := NewMapper(func(_ context.Context, _ string, into any) error {
		into.(*metav1.APIResourceList).APIResources = resources
		return nil
	})
	c, err := New(Config{REST: &rest.Config{Host: "http://test", Transport: transport}, Mapper: mapper})
	require.NoError(t, err)
	return c
}

func podOf(name string) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	p.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u-" + "1", ResourceVersion: "9",
		Labels:        map[string]string{"a": "b"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	return p
}

// built-in kinds are transferred as protobuf if the server supports it: objects, lists, watches,
// errors and metadata.
func TestProtobuf(t *testing.T) {
	s, c := newProtobuf(t)
	key := Key{Namespace: "default", Name: "a"}
	s.answer = podOf("a")
	got, err := Get[corev1.Pod](t.Context(), c, key)
	if err != nil || !reflect.DeepEqual(got, podOf("a")) {
		t.Errorf("get: %v %+v", err, got)
	}
	accept := s.asked[len(s.asked)-1]
	assert.Equalf(t, accept, "application/vnd.kubernetes.protobuf,application/json", "requested")
	s.answer = &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "12", Continue: "more"},
		Items: []corev1.Pod{*podOf("a"), *podOf("b")}}
	list := &corev1.PodList{}
	if err := c.List(t.Context(), list); err != nil || len(list.Items) != 2 || list.Items[1].Kind != "Pod" ||
		list.ResourceVersion != "12" {
		t.Errorf("list: %v %+v", err, list)
	}
	items := NewItems(&corev1.Pod{})
	err = c.List(t.Context(), items, ListOptions{Shared: true})
	if err != nil || len(items.Items) != 2 || !reflect.DeepEqual(items.Items[1], Object(podOf("b"))) ||
		items.Continue != "more" {
		t.Errorf("items: %v %+v", err, items)
	}
	prototype := podOf("")
	encoded := NewItems(NewEncoded(prototype))
	require.NoError(t, c.List(t.Context(), encoded))
	whole := &corev1.Pod{}
	e := encoded.Items[1].(*Encoded)
	if err := Decode(e.Data, whole, e.GroupVersionKind()); err != nil || !reflect.DeepEqual(whole, podOf("b")) ||
		e.Name != "b" || e.UID != "u-1" || e.ResourceVersion != "9" {
		t.Errorf("encoded: %v %+v %+v", err, e, whole)
	}
	if head, err := MetadataOf(e.Data); err != nil || head.Labels["a"] != "b" {
		t.Errorf("metadata: %v %+v", err, head)
	}

	s.code = http.StatusForbidden
	s.answer = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: 403, Reason: metav1.StatusReasonForbidden, Message: "not you"}
	if _, err := Get[corev1.Pod](t.Context(), c, key); err == nil || err.Error() != "not you" {
		t.Errorf("error: %v", err)
	}
	s.code = http.StatusOK

	end := podOf("")
	end.ObjectMeta = metav1.ObjectMeta{ResourceVersion: "20",
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	s.events = []watch.Event{{Type: watch.Added, Object: podOf("a")}, {Type: watch.Bookmark, Object: end},
		{Type: watch.Deleted, Object: podOf("a")}}
	for _, prototype := range []Object{&corev1.Pod{}, NewEncoded(podOf(""))} {
		stream, err := c.Watch(t.Context(), NewItems(prototype))
		require.NoError(t, err)
		var lines []string
		for e := range stream.ResultChan() {
			o := e.Object.(Object)
			lines = append(lines, fmt.Sprintf("%s %s %s %d", e.Type, o.GetName(), o.GetResourceVersion(),
				len(o.GetAnnotations())))
		}
		got := strings.Join(lines, ", ")
		assert.Equalf(t, got, "ADDED a 9 0, BOOKMARK  20 1, DELETED a 9 0", "watch of %T", prototype)
	}
}

// Custom resources are requested as JSON; only their metadata may be protobuf.
func TestAccept(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	custom := &unstructured.Unstructured{}
	custom.SetGroupVersionKind(kind)
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(kind)
	as := ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for want, what := range map[string]runtime.Object{
		jsonType: custom,
		protobufType + as + "," + jsonType + as + "," + jsonType: metadata,
		protobufType + "," + jsonType:                            NewEncoded(podOf("")),
	} {
		assert.Equalf(t, acceptOf(what, false), want, "%T", what)
	}
	e := NewEncoded(custom)
	if err := (jsonCodec{}).decode([]byte(widgetText), e, kind); err != nil || e.Name != "a" ||
		e.Namespace != "default" || e.UID != "u1" || e.ResourceVersion != "7" {
		t.Errorf("%v %+v", err, e)
	}
	whole := &unstructured.Unstructured{}
	if err := Decode(e.Data, whole, kind); err != nil || whole.GetLabels()["x"] != "y" {
		t.Errorf("%v %v", err, whole)
	}
	for _, broken := range []string{``, `{`, `{"metadata":{"name":1}}`, `{"metadata":[]}`, `{"kind":"Widget"}`,
		`{"metadata":{"name":"a"}`} {
		if err := (jsonCodec{}).decode([]byte(broken), NewEncoded(custom), kind); err == nil {
			t.Errorf("%s is taken", broken)
		}
	}
}
