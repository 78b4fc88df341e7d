package client_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest/apiserver"
)

const messageType = "application/vnd.kubernetes.protobuf"

// Objects of Kubernetes' types are sent as protobuf to servers that respond with protobuf. Fields
// that a server drops cause a warning.
func TestMessagesStory(t *testing.T) {
	cfg := apiserver.For(t)
	ctx := t.Context()
	configMap := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "messages-" + name},
			Data:       map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0, 255}},
		}
	}
	var warned []string
	sent := &requests{}
	// between modifies a create request on its way to the server.
	fresh := func(t *testing.T, between func(next http.RoundTripper, r *http.Request) (*http.Response,
		error)) client.Client {
		warned, sent.sent = nil, nil
		c := mustClient(t, cfg, func(next http.RoundTripper) http.RoundTripper {
			return sent.wrap(roundTrip(func(r *http.Request) (*http.Response, error) {
				if between == nil || r.Method != http.MethodPost {
					return next.RoundTrip(r)
				}
				return between(next, r)
			}))
		}, &warned)
		_, err := client.Get[corev1.Namespace](ctx, c, client.Key{Name: "default"})
		must(t, err)
		return c
	}
	remove := func(t *testing.T, obj client.Object) {
		t.Cleanup(func() { must(t, mustClient(t, cfg, nil, nil).Delete(context.Background(), obj)) })
	}

	t.Run("create and update", func(t *testing.T) {
		c := fresh(t, nil)
		obj := configMap("plain")
		must(t, c.Create(ctx, obj))
		remove(t, obj)
		sent.want(t, sentMessage)
		obj.Data["a"] = "2"
		must(t, c.Update(ctx, obj))
		sent.want(t, "PUT vnd.kubernetes.protobuf")
		if live, err := client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(obj)); err != nil || live.Data["a"] != "2" ||
			!bytes.Equal(live.BinaryData["b"], []byte{0, 255}) {
			t.Errorf("there is %v, %v", live, err)
		}
		obj.Data["a"] = "3"
		must(t, c.Update(ctx, obj, client.FieldValidation(metav1.FieldValidationStrict)))
		sent.want(t, "PUT json")
		if len(warned) > 0 {
			t.Errorf("warned of %q", warned)
		}
	})
	t.Run("a secret", func(t *testing.T) {
		c := fresh(t, nil)
		obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "messages"},
			StringData: map[string]string{"a": "1"}}
		must(t, c.Create(ctx, obj))
		remove(t, obj)
		if string(obj.Data["a"]) != "1" || len(warned) > 0 {
			t.Errorf("answer %v, warned of %q", obj, warned)
		}
	})
	t.Run("an object within an object", func(t *testing.T) {
		c := fresh(t, nil)
		obj := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "messages"},
			Revision: 1}
		obj.Data.Object = configMap("within")
		must(t, c.Create(ctx, obj))
		remove(t, obj)
		sent.want(t, sentCreate)
		assert.Containsf(t, string(obj.Data.Raw), "messages-within", "answer %v", obj)
	})
	t.Run("an older server", func(t *testing.T) {
		forget := func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.Header.Get("Content-Type") == messageType {
				r = withoutImmutable(t, r)
			}
			return next.RoundTrip(r)
		}
		c := fresh(t, forget)
		obj := configMap("less")
		obj.Immutable = new(true)
		must(t, c.Create(ctx, obj))
		remove(t, obj)
		if len(warned) != 1 || !strings.Contains(warned[0], "field immutable was sent but is missing") {
			t.Errorf("warned of %q", warned)
		}
		c = fresh(t, forget)
		obj = configMap("less-applied")
		obj.Immutable = new(true)
		must(t, c.Apply(ctx, obj, client.WriteOptions{New: true}))
		remove(t, obj)
		sent.want(t, sentMessage, sentApply)
		if obj.Immutable == nil || !*obj.Immutable || len(warned) > 0 {
			t.Errorf("answer %v, warned of %q", obj, warned)
		}
		obj = configMap("less-again")
		must(t, c.Apply(ctx, obj, client.WriteOptions{New: true}))
		remove(t, obj)
		sent.want(t, sentApply)
	})
	t.Run("a server that rejects protobuf", func(t *testing.T) {
		c := fresh(t, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.Header.Get("Content-Type") == messageType {
				return &http.Response{StatusCode: http.StatusUnsupportedMediaType, Header: http.Header{},
					Body: io.NopCloser(strings.NewReader("JSON, please")), Request: r}, nil
			}
			return next.RoundTrip(r)
		})
		for _, name := range []string{"none", "none-again"} {
			obj := configMap(name)
			must(t, c.Create(ctx, obj))
			remove(t, obj)
		}
		sent.want(t, sentMessage, sentCreate, sentCreate)
	})
}

// mustClient returns a client with a wrapped transport, which records warnings.
func mustClient(t *testing.T, cfg *rest.Config, wrap func(http.RoundTripper) http.RoundTripper,
	warned *[]string) client.Client {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	if wrap != nil {
		cfg.Wrap(wrap)
	}
	c, err := client.New(client.Config{REST: cfg, Warnings: func(_ context.Context, text string) {
		if warned != nil {
			*warned = append(*warned, text)
		}
	}})
	must(t, err)
	return c
}

// withoutImmutable returns a request as decoded by a server that lacks the field immutable.
func withoutImmutable(t *testing.T, r *http.Request) *http.Request {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	must(t, err)
	codec := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	obj, err := runtime.Decode(codec, data)
	must(t, err)
	obj.(*corev1.ConfigMap).Immutable = nil
	var less bytes.Buffer
	must(t, codec.Encode(obj, &less))
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(&less), int64(less.Len())
	return r
}
