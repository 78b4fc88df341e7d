package internal_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/internal/assert"
)

// kubernetes is Kubernetes' serializer of a media type. The package must produce the same bytes.
func kubernetes(t *testing.T, media string) runtime.SerializerInfo {
	t.Helper()
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media)
	if !ok {
		t.Fatal(media)
	}
	return info
}

func pods(n int) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "17", Continue: "next"}, Items: []corev1.Pod{}}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for i := range n {
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", i),
			Labels: map[string]string{"a": "<b>"}}})
	}
	return list
}

// Messages composed from bare encodings equal those of Kubernetes' serializers.
func TestAgreesWithKubernetes(t *testing.T) {
	for _, media := range []string{resource.MediaJSON, resource.MediaYAML, resource.MediaProtobuf, resource.MediaCBOR} {
		for _, n := range []int{0, 1, 3, 300} {
			list := pods(n)
			f := wire.Format{Media: media}
			var items [][]byte
			for i := range list.Items {
				bare, err := wire.Encode(f.Bare(), &list.Items[i])
				require.NoError(t, err)
				items = append(items, bare)
			}
			w := httptest.NewRecorder()
			wire.List(w, httptest.NewRequest("GET", "/", nil), 200, f, list.GroupVersionKind(), list.ListMeta, items,
				corev1.SchemeGroupVersion.WithKind("Pod"))
			if ct := w.Header().Get("Content-Type"); ct != media {
				t.Errorf("%s: %s", media, ct)
			}
			want, err := runtime.Encode(kubernetes(t, media).Serializer, list)
			require.NoError(t, err)
			same(t, media, w.Body.Bytes(), want)
		}
		pod := &pods(1).Items[0]
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		bare, err := wire.Encode(wire.Format{Media: media}.Bare(), pod)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		wire.Object(w, httptest.NewRequest("GET", "/", nil), 200, wire.Format{Media: media}, pod.GroupVersionKind(), bare)
		want, err := runtime.Encode(kubernetes(t, media).Serializer, pod)
		require.NoError(t, err)
		same(t, media, w.Body.Bytes(), want)
	}
}

// same compares the bytes of formats that have only one encoding of a value. For other formats, it
// compares the decoded values.
func same(t *testing.T, media string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	decode := func(data []byte) runtime.Object {
		obj, err := runtime.Decode(kubernetes(t, media).Serializer, data)
		require.NoErrorf(t, err, "%s", media)
		return obj
	}
	if g, w := fmt.Sprintf("%+v", decode(got)), fmt.Sprintf("%+v", decode(want)); g != w ||
		media == resource.MediaProtobuf {
		t.Errorf("%s:\n got %s\nwant %s", media, g, w)
	}
}

// In JSON and protobuf, an event around an encoded object has the bytes that Kubernetes' own
// serializers write. In CBOR, it begins with a tag.
func TestEvent(t *testing.T) {
	pod := &pods(1).Items[0]
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	pod.SetGroupVersionKind(kind)
	for _, media := range []string{resource.MediaJSON, resource.MediaProtobuf, resource.MediaCBOR} {
		bare, err := wire.Encode(media, pod)
		require.NoError(t, err)
		got, err := wire.Event(media, watch.Added, kind, bare)
		require.NoError(t, err)
		info := kubernetes(t, media)
		inner, err := runtime.Encode(info.Serializer, pod)
		require.NoError(t, err)
		var want bytes.Buffer
		event := &metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: inner}}
		err = info.StreamSerializer.Encode(event, info.StreamSerializer.Framer.NewFrameWriter(&want))
		require.NoError(t, err)
		// Kubernetes repeats the tag for the object in the event, without further information
		if media == resource.MediaCBOR {
			if len(got) == 0 || got[0] != 0xd9 {
				t.Errorf("cbor: %x", got)
			}
			continue
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s:\n got %q\nwant %q", media, got, want.Bytes())
		}
	}
}

// The header Accept, the user agent and the parameter pretty select the format. Formats that can't
// be served are refused, and YAML can't be streamed.
func TestNegotiate(t *testing.T) {
	table := schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "Table"}
	all := wire.Allow{Protobuf: true, Transform: true}
	for _, c := range []struct {
		accept, agent, query string
		allow                wire.Allow
		want                 wire.Format
		fails                bool
	}{
		{"", "", "", all, wire.Format{Media: resource.MediaJSON}, false},
		{"*/*", "curl/8", "", all, wire.Format{Media: resource.MediaJSON, Pretty: true}, false},
		{"*/*", "curl/8", "pretty=0", all, wire.Format{Media: resource.MediaJSON}, false},
		{"application/json", "", "pretty=true", all, wire.Format{Media: resource.MediaJSON, Pretty: true}, false},
		{"application/vnd.kubernetes.protobuf,application/json", "", "", all, wire.Format{Media: resource.MediaProtobuf},
			false},
		{"application/vnd.kubernetes.protobuf,application/json", "", "", wire.Allow{}, wire.Format{Media: resource.MediaJSON},
			false},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "", "", all,
			wire.Format{Media: resource.MediaJSON, As: table}, false},
		{"application/json;as=Table;v=v2;g=meta.k8s.io,application/json", "", "", all,
			wire.Format{Media: resource.MediaJSON}, false},
		{"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", "", "", all, wire.Format{}, true},
		{"application/json;as=Table;v=v1;g=meta.k8s.io", "", "", wire.Allow{}, wire.Format{}, true},
		{"application/json;as=Table;v=v1;g=meta.k8s.io", "", "", wire.Allow{Transform: true, NoTable: true}, wire.Format{}, true},
		{"application/cbor-seq", "", "", all, wire.Format{}, true},
		{"text/html", "", "", all, wire.Format{}, true},
		{"text/html,*/*;q=0.8", "", "", all, wire.Format{Media: resource.MediaJSON}, false},
	} {
		req := httptest.NewRequest("GET", "/?"+c.query, nil)
		req.Header.Set("Accept", c.accept)
		req.Header.Set("User-Agent", c.agent)
		got, err := wire.Negotiate(req, c.allow)
		if (err != nil) != c.fails || got != c.want {
			t.Errorf("%s: %+v %v", c.accept, got, err)
		}
	}
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("Accept", "application/yaml")
	seq := httptest.NewRequest("GET", "/", nil)
	seq.Header.Set("Accept", "application/cbor-seq")
	if got, err := wire.NegotiateStream(seq, all); err != nil || got.Media != resource.MediaCBOR {
		t.Errorf("stream of cbor-seq: %+v %v", got, err)
	}
	_, err := wire.NegotiateStream(req, all)
	assert.Equalf(t, wire.Status(err).Code, http.StatusNotAcceptable, "yaml can't be streamed: %v", err)
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int32
	}{
		{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a"), 404},
		{fmt.Errorf("do: %w", apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("x"))), 409},
		{fmt.Errorf("commit: %w: write /data: input/output error", store.ErrFailed), 503},
		{fmt.Errorf("write /data: %w: no space left on device", store.ErrFull), 503},
		{fmt.Errorf("%w: encrypt: plugin at /data", store.ErrNotWritten), 500},
		{&store.ConflictError{Reason: store.ErrConflict}, 409},
		{errors.New("x"), 500},
	} {
		if s := wire.Status(c.err); s.Code != c.code || s.Status != "Failure" || s.Kind != "Status" {
			t.Errorf("%v: %+v", c.err, s)
		} else if strings.Contains(s.Message, "/data") {
			t.Errorf("the response reveals the path of the data: %s", s.Message)
		}
	}
	if s := wire.Status(store.ErrFull); s.Details == nil || s.Details.RetryAfterSeconds == 0 {
		t.Errorf("status for a full disk: %+v", s)
	}
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	wire.Error(w, req, apierrors.NewTooManyRequests("later", 7))
	if w.Code != 429 || w.Header().Get("Retry-After") != "7" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("an error without a supported media type must be JSON: %d %v", w.Code, w.Header())
	}
}
