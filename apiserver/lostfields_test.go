package apiserver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/apiservertest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// cake is the hub: version v1.
type cake struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Layers []string `json:"layers,omitempty"`
		Icing  string   `json:"icing,omitempty"`
	} `json:"spec"`
}

func (c *cake) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Layers = slices.Clone(c.Spec.Layers)
	return &out
}

// oldCake is version v1alpha1, whose conversion drops the candles and all layers but the first, and
// changes the icing to lower case.
type oldCake struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Layers  []string `json:"layers,omitempty"`
		Icing   string   `json:"icing,omitempty"`
		Candles *struct {
			Count int64 `json:"count"`
		} `json:"candles,omitempty"`
	} `json:"spec"`
}

func (c *oldCake) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Layers = slices.Clone(c.Spec.Layers)
	return &out
}

func (c *oldCake) ConvertTo(hub *cake) error {
	hub.ObjectMeta, hub.Spec.Icing = c.ObjectMeta, strings.ToLower(c.Spec.Icing)
	hub.Spec.Layers = c.Spec.Layers[:min(1, len(c.Spec.Layers))]
	return nil
}

func (c *oldCake) ConvertFrom(hub *cake) error {
	c.ObjectMeta, c.Spec.Icing, c.Spec.Layers = hub.ObjectMeta, hub.Spec.Icing, hub.Spec.Layers
	return nil
}

// Fields that a conversion loses on purpose are not reported.
func TestDroppedFields(t *testing.T) {
	env := apiservertest.New(t, apiserver.Group("bakery.example.com", apiserver.Kind(
		&cake{TypeMeta: metav1.TypeMeta{APIVersion: "bakery.example.com/v1", Kind: "Cake"}},
		apiserver.Version(&oldCake{TypeMeta: metav1.TypeMeta{APIVersion: "bakery.example.com/v1alpha1", Kind: "Cake"}}),
		apiserver.Drops("v1alpha1", "spec.candles"))))
	_, err := env.Dynamic(t).Resource(schema.GroupVersionResource{Group: "bakery.example.com", Version: "v1alpha1",
		Resource: "cakes"}).Namespace("default").
		Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "bakery.example.com/v1alpha1", "kind": "Cake", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"candles": map[string]any{"count": int64(1)}, "layers": []any{"a", "b"}},
		}}, metav1.CreateOptions{FieldValidation: "Strict"})
	if err == nil || strings.Contains(err.Error(), "candles") || !strings.Contains(err.Error(), "spec.layers") {
		t.Error(err)
	}
}

// A write through a version whose conversion loses fields gets a warning, or an error.
func TestLossyConversion(t *testing.T) {
	env := apiservertest.New(t, apiserver.Group("bakery.example.com", apiserver.Kind(
		&cake{TypeMeta: metav1.TypeMeta{APIVersion: "bakery.example.com/v1", Kind: "Cake"}},
		apiserver.Version(&oldCake{TypeMeta: metav1.TypeMeta{APIVersion: "bakery.example.com/v1alpha1",
			Kind: "Cake"}}))))
	const (
		path   = "/apis/bakery.example.com/v1alpha1/namespaces/default/cakes"
		lossy  = `{"metadata":{"name":"%"},"spec":{"layers":["sponge","cream"],"icing":"WHITE","candles":{"count":3}}}`
		plain  = `{"metadata":{"name":"%"},"spec":{"layers":["sponge"],"icing":"WHITE"}}`
		candle = `field "spec.candles" is lost in the conversion from v1alpha1 to v1`
		layers = `field "spec.layers" is lost in the conversion from v1alpha1 to v1`
	)
	send := func(verb, path, directive, media, body string) ([]string, error) {
		t.Helper()
		received := &warnings{}
		config := rest.CopyConfig(env.RESTConfig())
		config.WarningHandler = received
		config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
		client, err := rest.UnversionedRESTClientFor(config)
		require.NoError(t, err)
		err = client.Verb(verb).RequestURI(path).Param("fieldValidation", directive).SetHeader("Content-Type",
			media).Body([]byte(body)).Do(t.Context()).Error()
		return *received, err
	}
	for _, test := range []struct {
		name, directive, body string
		warnings              []string
		err                   string
	}{
		{"warn", "Warn", lossy, []string{candle, layers}, ""},
		{"default", "", lossy, []string{candle, layers}, ""},
		{"ignore", "Ignore", lossy, nil, ""},
		{"strict", "Strict", lossy, nil, "Cake in version \"v1alpha1\" cannot be handled as a Cake: strict decoding error: " + candle + ", " + layers},
		{"plain", "Strict", plain, nil, ""},
	} {
		got, err := send(http.MethodPost, path, test.directive, "application/json",
			strings.Replace(test.body, "%", test.name, 1))
		assert.Slicef(t, got, test.warnings, "%s: warnings", test.name)
		if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s: %v, want %s", test.name, err, test.err)
		}
	}
	_, err := send(http.MethodPatch, path+"/plain", "Strict", "application/merge-patch+json",
		`{"spec":{"candles":{"count":1}}}`)
	assert.ErrorContainsf(t, err, candle, "patch")
	if got, err := send(http.MethodPatch, path+"/plain", "Strict", "application/merge-patch+json",
		`{"spec":{"icing":"blue"}}`); err != nil || len(got) > 0 {
		t.Errorf("patch: %v, %v", got, err)
	}
	const (
		strategic = "application/strategic-merge-patch+json"
		apply     = "application/apply-patch+yaml"
		applied   = `{"apiVersion":"bakery.example.com/v1alpha1","kind":"Cake","metadata":{"name":"%"},"spec":{"candles":{"count":1}}}`
		harmless  = `{"apiVersion":"bakery.example.com/v1alpha1","kind":"Cake","metadata":{"name":"%"},"spec":{"icing":"blue"}}`
	)
	for _, test := range []struct {
		name, media, directive, body string
		warnings                     []string
		err                          string
	}{
		{"plain", strategic, "Strict", `{"spec":{"candles":{"count":1}}}`, nil, candle},
		{"plain", strategic, "Warn", `{"spec":{"candles":{"count":1}}}`, []string{candle}, ""},
		{"plain", strategic, "Strict", `{"spec":{"icing":"red"}}`, nil, ""},
		{"plain", apply, "Strict", applied, nil, "error strict decoding patch: " + candle},
		{"plain", apply, "Warn", applied, []string{candle}, ""},
		{"plain", apply, "Ignore", applied, nil, ""},
		{"plain", apply, "Strict", harmless, nil, ""},
		{"applied", apply, "Strict", applied, nil, "error strict decoding patch: " + candle},
		{"applied", apply, "Warn", applied, []string{candle}, ""},
		{"applied", apply, "Strict", harmless, nil, ""},
	} {
		at := path + "/" + test.name
		if test.media == apply {
			at += "?fieldManager=test&force=true"
		}
		got, err := send(http.MethodPatch, at, test.directive, test.media,
			strings.Replace(test.body, "%", test.name, 1))
		if !slices.Equal(got, test.warnings) || (err == nil) != (test.err == "") ||
			err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s %s %s %s: warnings %q, %v; want %q, %s", test.name, test.media, test.directive, test.body, got,
				err, test.warnings, test.err)
		}
	}
}
