package builtin

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Unwrapped returns the field manager that a Codec's checks quantities for.
func Unwrapped(manager resource.FieldManager) resource.FieldManager {
	if a, ok := manager.(affordable); ok {
		return a.FieldManager
	}
	return manager
}

// quantityPod is a pod with a limit.
const quantityPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":%s}}}]}}`

func TestUnaffordable(t *testing.T) {
	for text, want := range map[string]bool{
		"1": false, "1e18": false, "1E": false, "1Ei": false, "100n": false, "-1e-9": false, "1e999": false,
		"1e00000018": false, "Energy": false, "1e": false, "1ex12345": false,
		"1e1000": true, "1e-1000": true, "1E+12345": true, " -1.5e2000000000\u00a0": true,
		strings.Repeat("1", 257): true, strings.Repeat("1", 256): false,
	} {
		assert.Equalf(t, unaffordable(text), want, "unaffordable(%q)", text)
	}
}

// maySpend must find all texts that unaffordable refuses, wherever they begin.
func TestMaySpend(t *testing.T) {
	for shift := range 8 {
		for _, text := range []string{"1e1000", "1e-1000", "1E+12345", "-.5e2000000000", " 1.e0001000 ",
			strings.Repeat("1", 257)} {
			for _, form := range []string{`{%q:"%s"}`, `{%q:%s}`, `{%q: "%s" }`, "{%q:\"\u00a0%s\u00a0\"}"} {
				body := fmt.Sprintf(form, strings.Repeat("k", shift), text)
				if unaffordable(text) && !maySpend([]byte(body)) {
					t.Errorf("not found in %s", body)
				}
			}
		}
	}
	for _, body := range []string{
		`{"a":"3f2504e0-4f89-11d3-9a0c-0305e82c3301"}`, `{"a":"sha256:a3e1234b5e99999f"}`, `{"a":"1e12345-x"}`,
		`{"a":"20240131120000","b":123456}`,
	} {
		if maySpend([]byte(body)) {
			t.Errorf("found in %s", body)
		}
	}
}

// Kelson refuses quantities whose power of ten takes long to compute, in bodies of every form and
// in every kind of patch. With a larger exponent, each of these requests would take minutes.
func TestExpensiveQuantities(t *testing.T) {
	s := serve(t, Config{})
	s.do(201, "POST", "/api/v1/namespaces/default/pods", fmt.Sprintf(quantityPod, "1"))
	s.do(201, "POST", "/api/v1/namespaces/default/resourcequotas",
		`{"metadata":{"name":"q"},"spec":{"hard":{"cpu":"1e18"}}}`)
	const quota = "/api/v1/namespaces/default/resourcequotas/q"
	for _, text := range []string{`"1e2000000"`, `"1e-2000000"`, `1e2000000`} {
		s.refused(422, metav1.StatusReasonInvalid, "POST", "/api/v1/namespaces/default/pods",
			strings.Replace(fmt.Sprintf(quantityPod, text), `"p"`, `"p2"`, 1))
		s.refused(422, metav1.StatusReasonInvalid, "PUT", quota,
			fmt.Sprintf(`{"metadata":{"name":"q"},"spec":{"hard":{"cpu":%s}}}`, text))
	}
	const text = `"1e2000000"`
	hard := fmt.Sprintf(`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"cpu":%s}}}`,
		text)
	got := s.refused(422, metav1.StatusReasonInvalid, "APPLY", quota, hard)
	want(t, "message", got, `ResourceQuota "" is invalid: spec.hard[cpu]: Invalid value: "1e2000000": `+errQuantity)
	s.refused(422, metav1.StatusReasonInvalid, "PATCH", quota, hard)
	s.refused(422, metav1.StatusReasonInvalid, "PUT", quota+"/status", strings.Replace(hard, "spec", "status", 1))
	s.refused(422, metav1.StatusReasonInvalid, "PATCH", quota, `{"spec":{"hard":{"cpu":"1e-2000000"}}}`)
	// The kind in the body selects the decoder.
	s.refused(422, metav1.StatusReasonInvalid, "POST", "/api/v1/namespaces/default/pods/p/binding",
		fmt.Sprintf(quantityPod, text))
	s.refused(422, metav1.StatusReasonInvalid, "POST", "/api/v1/namespaces/default/configmaps",
		fmt.Sprintf(quantityPod, text))
}

// Quantities are checked in every media type, also where a later duplicate hides them, and in the
// annotations that conversions parse.
func TestExpensiveQuantitiesInBodies(t *testing.T) {
	codecs := map[string]*Codec{}
	all, err := Resources(Config{})
	require.NoError(t, err)
	for _, r := range all {
		codecs[r.Plural] = r.Codec.(*Codec)
	}
	pod := fmt.Sprintf(quantityPod, `"1e2000000"`)
	var object unstructured.Unstructured
	require.NoError(t, object.UnmarshalJSON([]byte(pod)))
	inCBOR, err := cbor.Marshal(object.Object)
	require.NoError(t, err)
	annotation := `[{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"1e2000000"}}]`
	scaler := &autoscalingv1.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Name: "h",
			Annotations: map[string]string{"autoscaling.alpha.kubernetes.io/metrics": annotation}},
	}
	quoted := strings.NewReplacer(`"`, `\"`, `e2`, `\u00652`).Replace(annotation)
	for _, test := range []struct{ plural, version, media, body string }{
		{"pods", "v1", resource.MediaJSON, pod},
		{"pods", "v1", resource.MediaJSON, strings.Replace(pod, `"1e2000000"`, `"1e2000000","cpu":"1"`, 1)},
		{"pods", "v1", resource.MediaJSON, strings.Replace(pod, `{"apiVersion":"v1","kind":"Pod",`, `{`, 1)},
		{"pods", "v1", resource.MediaYAML, strings.Replace(pod, `"1e2000000"`, `"1\x652000000"`, 1)},
		{"pods", "v1", resource.MediaCBOR, string(inCBOR)},
		{"pods", "v1", resource.MediaProtobuf, protobufWithQuantity(t)},
		{"horizontalpodautoscalers", "v1", resource.MediaProtobuf, string(inProtobuf(t, scaler))},
		{"horizontalpodautoscalers", "v1", resource.MediaJSON,
			`{"metadata":{"name":"h","annotations":{"autoscaling.alpha.kubernetes.io/metrics":"` + quoted + `"}}}`},
	} {
		_, _, err := codecs[test.plural].Decode([]byte(test.body), test.media, test.version)
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s %q: %v", test.media, test.body, err)
		}
		if test.media == resource.MediaJSON && strings.HasPrefix(test.body, `{"api`) {
			if _, _, err := codecs[test.plural].DecodePatched([]byte(test.body),
				test.version); !apierrors.IsInvalid(err) {
				t.Errorf("patched %q: %v", test.body, err)
			}
		}
	}
	// Other strings may look like quantities.
	_, _, err = codecs["pods"].Decode([]byte(`{"metadata":{"name":"p","labels":{"commit":"12e4567"}}}`),
		resource.MediaJSON, "v1")
	assert.NoError(t, err)
}

func inProtobuf(t *testing.T, obj runtime.Object) []byte {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, protobuf.NewSerializer(Scheme(), Scheme()).Encode(obj, &buf))
	return buf.Bytes()
}

// protobufWithQuantity encodes a pod whose quantity cannot be encoded, because that would compute
// it: it replaces another one of the same length.
func protobufWithQuantity(t *testing.T) string {
	pod := podWithLimit("111111111")
	return strings.Replace(string(inProtobuf(t, pod)), "111111111", "1e2000000", 1)
}

func podWithLimit(cpu string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"cpu": apiresource.MustParse(cpu), "memory": apiresource.MustParse("1Gi")},
		}}}},
	}
}

// The scale of parsed quantities is read from private fields of Quantity.
func TestExpensiveObjects(t *testing.T) {
	q := quantitiesOf(reflect.TypeFor[corev1.Pod]())
	for cpu, refused := range map[string]bool{"1": false, "1e18": false, "1e-9": false, "1e999": false, "1.5Gi": false,
		"111111111111111111111111": false, "1e1000": true, "1e20000000": true} {
		err := (&Codec{kind: schema.GroupKind{Kind: "Pod"}}).checkObject(podWithLimit(cpu))
		assert.Equalf(t, err != nil, refused, "%s: %v", cpu, err)
	}
	if q == nil || quantitiesOf(reflect.TypeFor[corev1.ConfigMap]()) != nil {
		t.Errorf("quantities of pods %v, of config maps %v", q, quantitiesOf(reflect.TypeFor[corev1.ConfigMap]()))
	}
}

func BenchmarkCheckQuantities(b *testing.B) {
	body := []byte(fmt.Sprintf(quantityPod, `"1"`))
	body = append(body[:len(body)-1], `,"status":{"message":"`+strings.Repeat("some text 2024 ", 120)+`"}}`...)
	pod := podWithLimit("1")
	b.Run("json", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			maySpend(body)
		}
	})
	b.Run("object", func(b *testing.B) {
		for b.Loop() {
			(&Codec{}).checkObject(pod)
		}
	})
	var buf bytes.Buffer
	require.NoError(b, protobuf.NewSerializer(Scheme(), Scheme()).Encode(pod, &buf))
	c := &Codec{scheme: Scheme()}
	b.Run("protobuf", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, c.CheckBody(buf.Bytes(), resource.MediaProtobuf,
				corev1.SchemeGroupVersion.WithKind("Pod")))
		}
	})
}
