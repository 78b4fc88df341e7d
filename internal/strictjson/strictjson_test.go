package strictjson

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// sample has a field of each sort that decodes alike.
type sample struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Text     string                       `json:"text,omitempty"`
	Small    int8                         `json:"small,omitempty"`
	Large    *int64                       `json:"large,omitempty"`
	Unsigned uint16                       `json:"unsigned,omitempty"`
	Real     float32                      `json:"real,omitempty"`
	Bool     *bool                        `json:"bool,omitempty"`
	Bytes    []byte                       `json:"bytes,omitempty"`
	Amount   resource.Quantity            `json:"amount,omitempty"`
	Amounts  map[string]resource.Quantity `json:"amounts,omitempty"`
	Port     *intstr.IntOrString          `json:"port,omitempty"`
	Every    metav1.Duration              `json:"every,omitempty"`
	Micro    metav1.MicroTime             `json:"micro,omitempty"`
	Raw      runtime.RawExtension         `json:"raw,omitempty"`
	Message  json.RawMessage              `json:"message,omitempty"`
	Names    []string                     `json:"names,omitempty"`
	Maps     map[string]map[string]int    `json:"maps,omitempty"`
	Next     *sample                      `json:"next,omitempty"`
	List     []nested                     `json:"list,omitempty"`
	Hidden   any                          `json:"-"`
	Untagged int
}

type nested struct {
	Key   string   `json:"key"`
	Value *float64 `json:"value,omitzero"`
}

func (s *sample) DeepCopyObject() runtime.Object { panic("not used") }

var sampleKind = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "Sample"}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(sampleKind, &sample{})
	scheme.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{})
	scheme.AddKnownTypeWithName(appsv1.SchemeGroupVersion.WithKind("Deployment"), &appsv1.Deployment{})
	return scheme
}

// FuzzDecode checks that Kubernetes' strict serializer decodes the same object without an error.
func FuzzDecode(f *testing.F) {
	scheme := newScheme()
	decoder := New(scheme)
	library := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme,
		serializer.SerializerOptions{Strict: true})
	kinds := []schema.GroupVersionKind{sampleKind, corev1.SchemeGroupVersion.WithKind("Pod"),
		appsv1.SchemeGroupVersion.WithKind("Deployment")}
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		for _, kind := range kinds {
			got, ok := decoder.Decode([]byte(data), kind)
			if !ok {
				continue
			}
			want, wantKind, err := library.Decode([]byte(data), nil, nil)
			switch {
			case err != nil:
				t.Errorf("the library refuses %s: %v", data, err)
			case *wantKind != kind:
				t.Errorf("the library decodes a %v from %s", wantKind, data)
			case !reflect.DeepEqual(got, want):
				t.Errorf("%s: got %#v, want %#v", data, got, want)
			}
		}
	})
}

const begin = `{"apiVersion":"test/v1","kind":"Sample",`

var seeds = []string{
	`{"apiVersion":"test/v1","kind":"Sample"}`,
	begin + `"metadata":{"name":"a","creationTimestamp":null,"labels":{"a":"b"},"managedFields":[{"manager":"m","fieldsV1":{"f:a":{}},"time":"2026-11-26T08:00:00Z"}]}}`,
	begin + `"text":"\u00e9\ud83d\ude00\/","small":-128,"large":9223372036854775807,"unsigned":65535,"real":1.5e3,"bool":true,"bytes":"YWJj","Untagged":-0}`,
	begin + `"amount":"1500m","amounts":{"cpu":1,"memory":"1Gi"},"port":80,"every":"1m","micro":"2026-11-26T08:00:00.000001Z"}`,
	begin + `"port":"http","raw":{"apiVersion":"v1", "kind":"Pod"},"message": [1, 2 ],"names":[],"maps":{"a":{"b":1},"c":null},"next":{"text":"x","next":null}}`,
	begin + `"list":[{"key":"a","value":1},{"key":"b","value":null},null],"names":null,"amount":null,"raw":null,"message":null,"every":null,"large":null,"bool":null}`,
	begin + `"text":"a","text":"b"}`, begin + `"maps":{"a":{"b":1,"b":2}}}`, begin + `"unknown":1}`,
	begin + `"Text":"case"}`, begin + `"text":1}`, begin + `"small":1.0}`,
	begin + `"small":128}`, begin + `"real":1e40}`, begin + `"bytes":"YW\nJj"}`, begin + `"bytes":"YWJj=="}`,
	begin + `"bytes":[1]}`, begin + `"untagged":1}`, begin + `"Hidden":1}`,
	begin + `"text":"\ud800"}`, begin + "\"text\":\"\xff\"}", begin + "\"text\":\"\t\"}",
	begin + `"raw":{"a":1,"a":2}}`, begin + `"message":1} x`, "\ufeff" + begin + `"text":""}`,
	` {"kind" : "Sample" , "apiVersion" : "test/v1" , "text" : "" } ` + "\n", `{"apiVersion":"test/v1","kind":null}`,
	`{"apiVersion":"test/v2","kind":"Sample"}`, `{"kind":"Sample"}`, `null`, `[]`,
	begin + `"metadata":{"creationTimestamp":"2026-11-26T08:00:00+01:00","deletionTimestamp":null},"micro":"2026-11-26T08:00:00.5+01:00"}`, begin + `"micro":"2026-11-26T08:00:00Z"}`,
	begin + `"metadata":{"creationTimestamp":"2026-11-26T08:00:00.123456789Z"}}`,
	begin + `"metadata":{"creationTimestamp":1}}`, begin + `"metadata":{"creationTimestamp":{}}}`,
	begin + `"metadata":{"creationTimestamp":"\u0032026-11-26T08:00:00Z"}}`,
	begin + `"metadata":{"creationTimestamp":"yesterday"}}`, begin + `"metadata":{"creationTimestamp":""}}`,
	`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","image":"b","resources":{"limits":{"cpu":"1"}},"livenessProbe":{"httpGet":{"port":80}}}],"terminationGracePeriodSeconds":30}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":3,"strategy":{"rollingUpdate":{"maxSurge":"25%"}},"template":{"spec":{"containers":null}}}}`,
}

// The fast path decodes ordinary objects, and nothing that the library refuses or warns of.
func TestDecode(t *testing.T) {
	decoder := New(newScheme())
	ordinary := 0
	for _, seed := range seeds {
		for _, kind := range []schema.GroupVersionKind{sampleKind, corev1.SchemeGroupVersion.WithKind("Pod"),
			appsv1.SchemeGroupVersion.WithKind("Deployment")} {
			if _, ok := decoder.Decode([]byte(seed), kind); ok {
				ordinary++
			}
		}
	}
	if ordinary < 8 {
		t.Errorf("decoded %d of the documents", ordinary)
	}
	obj, ok := decoder.Decode([]byte(seeds[3]), sampleKind)
	want := resource.MustParse("1500m")
	if !ok || !equality.Semantic.DeepEqual(obj.(*sample).Amount, want) || obj.(*sample).Every.Duration != time.Minute {
		t.Errorf("got %+v, %v", obj, ok)
	}
}

type (
	embedded     struct{ A int }
	namedByte    uint8
	textKey      struct{ s string }
	pointerInner struct{ *embedded }
)

func (k *textKey) UnmarshalText(text []byte) error { k.s = string(text); return nil }

// Types that the decoders could treat differently are left to the library.
func TestTypesForTheLibrary(t *testing.T) {
	for _, value := range []any{
		struct{ A any }{}, struct{ A map[string]any }{}, struct{ A fmt.Stringer }{}, struct{ A [4]byte }{},
		struct{ A time.Duration }{}, struct{ A func() }{},
		struct{ A []namedByte }{}, struct{ A map[int]string }{}, struct{ A map[textKey]string }{}, pointerInner{},
		struct{ embedded }{},
		struct {
			A int `json:"a,string"`
		}{},
		struct {
			A embedded `json:",inline"`
		}{},
		struct {
			A map[string]int `json:",unknown"`
		}{},
		[]struct{ A []*any }{},
	} {
		if New(newScheme()).decodesAlike(reflect.TypeOf(value)) {
			t.Errorf("%T is decoded", value)
		}
	}
	for _, value := range []any{sample{}, corev1.Pod{}, appsv1.Deployment{}, struct{ A []textKey }{},
		map[string]*textKey{}} {
		if !New(newScheme()).decodesAlike(reflect.TypeOf(value)) {
			t.Errorf("%T is not decoded", value)
		}
	}
}

// Times are decoded without the method of their type, to the same value.
func TestTimes(t *testing.T) {
	d := New(newScheme())
	for _, text := range []string{
		`null`, `""`, `"2026-11-28T12:00:00Z"`, `"2026-11-28T12:00:00.123456789Z"`, `"2026-11-28T12:00:00+00:00"`,
		`"2026-11-28T12:00:00-07:30"`,
		`"2026-11-28t12:00:00z"`, `"2026-11-28T12:00:00,5Z"`, `"\u0032026-11-28T12:00:00Z"`, `"2026-1-2T3:4:5Z"`,
		`"2026-02-30T12:00:00Z"`,
		`"2026-11-28 12:00:00Z"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `"2026-11-28T24:00:00Z"`,
		`"2026-11-28T12:00:60Z"`,
		`"2026-11-28T12:00:00+24:00"`, `"today"`, `5`, `{}`, `[]`, `true`,
	} {
		var want metav1.Time
		wantErr := json.Unmarshal([]byte(text), &want)
		obj, ok := d.Decode([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"creationTimestamp":`+text+`}}`),
			corev1.SchemeGroupVersion.WithKind("Pod"))
		if ok != (wantErr == nil) {
			t.Errorf("%s: decoded: %v; the library: %v", text, ok, wantErr)
		} else if ok && !reflect.DeepEqual(obj.(*corev1.Pod).CreationTimestamp, want) {
			t.Errorf("%s: got %#v, want %#v", text, obj.(*corev1.Pod).CreationTimestamp, want)
		}
	}
}
