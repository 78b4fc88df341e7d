package client_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

// The scheme is apimachinery's, with its conversion, defaulting, codecs and deep copies. The client
// uses it only for types and kinds. It does not set defaults and does not convert objects.
func TestSchemeOfApimachinery(t *testing.T) {
	scheme := runtime.NewScheme()
	must(t, corev1.AddToScheme(scheme))
	scheme.AddTypeDefaultingFunc(&corev1.ConfigMap{}, func(obj any) {
		if cm := obj.(*corev1.ConfigMap); cm.Immutable == nil {
			cm.Immutable = new(bool)
		}
	})
	must(t, scheme.AddConversionFunc((*corev1.ConfigMap)(nil), (*corev1.Secret)(nil),
		func(a, b any, _ conversion.Scope) error {
			from, to := a.(*corev1.ConfigMap), b.(*corev1.Secret)
			to.ObjectMeta, to.StringData = from.ObjectMeta, from.Data
			return nil
		}))
	c, err := client.New(client.Config{REST: apitest.New().REST(), Scheme: scheme})
	must(t, err)
	require.Equalf(t, c.Scheme(), scheme, "the client has a scheme of its own")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Data: map[string]string{"k": "v"}}
	must(t, c.Create(t.Context(), cm))
	got, err := client.Get[corev1.ConfigMap](t.Context(), c, client.KeyOf(cm))
	must(t, err)
	if got.Immutable != nil {
		t.Error("the client sets defaults")
	}
	own := got.DeepCopy()
	c.Scheme().Default(own)
	if own.Immutable == nil || got.Immutable != nil {
		t.Errorf("the copy has the default %v, and the original has %v", own.Immutable, got.Immutable)
	}
	var secret corev1.Secret
	must(t, c.Scheme().Convert(got, &secret, nil))
	if secret.Name != "a" || secret.StringData["k"] != "v" {
		t.Errorf("converted to %+v", secret)
	}

	// The client and the codecs of the scheme support the same types.
	codecs := serializer.NewCodecFactory(c.Scheme())
	data, err := runtime.Encode(codecs.LegacyCodec(corev1.SchemeGroupVersion), got)
	must(t, err)
	decoded, kind, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
	must(t, err)
	ours, err := client.KindOf(decoded.(client.Object), c.Scheme())
	must(t, err)
	if want := (schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}); *kind != want || ours != want {
		t.Errorf("the kind is %v and %v", kind, ours)
	}
}
