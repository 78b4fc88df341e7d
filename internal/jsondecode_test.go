package internal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/jsondecode"
	"kelson.dev/internal/require"
	"kelson.dev/internal/tree"
)

type name string

type embedded struct {
	Inner string `json:"inner"`
}

type Embedded struct {
	embedded
	Deep string `json:"deep,omitempty"`
}

type recursive struct {
	Items []recursive           `json:"items,omitempty"`
	Named map[string]*recursive `json:"named,omitempty"`
	Value int                   `json:"value"`
}

// everything has fields of all types.
type everything struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Embedded          // decoded by apimachinery as a whole
	Bool              bool
	Int               int               `json:"int"`
	Int8              int8              `json:"int8"`
	Uint              uint8             `json:"uint"`
	Float             float64           `json:"float"`
	Pointer           **int             `json:"pointer"`
	Named             name              `json:"named"`
	Bytes             []byte            `json:"bytes"`
	Any               any               `json:"any"`
	Anys              []any             `json:"anys"`
	Object            map[string]any    `json:"object"`
	Texts             []string          `json:"texts"`
	Labels            map[name]name     `json:"labels"`
	Maps              map[string][]int  `json:"maps"`
	Keys              map[int]string    `json:"keys"`
	Array             [2]int            `json:"array"`
	Time              metav1.Time       `json:"time"`
	Times             []*metav1.Time    `json:"times"`
	Micro             *metav1.MicroTime `json:"micro"`
	Port              intstr.IntOrString
	Quantity          resource.Quantity    `json:"quantity"`
	Duration          *metav1.Duration     `json:"duration"`
	Raw               runtime.RawExtension `json:"raw"`
	Message           json.RawMessage      `json:"message"`
	Text              time.Time            `json:"text"`
	Quoted            int                  `json:"quoted,string"`
	Tree              recursive            `json:"tree"`
	Hidden            string               `json:"-"`
	_                 string
}

// plain has only fields that this package decodes.
type plain struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Bool    bool
		Int     int32             `json:"int"`
		Uint    uint8             `json:"uint"`
		Float   float64           `json:"float"`
		Pointer **int             `json:"pointer"`
		Named   name              `json:"named"`
		Bytes   []byte            `json:"bytes"`
		Any     any               `json:"any"`
		Object  map[string]any    `json:"object"`
		Texts   []string          `json:"texts"`
		Labels  map[name]name     `json:"labels"`
		Plain   map[string]string `json:"plain"`
		Maps    map[string][]int  `json:"maps"`
		Keys    map[int]string    `json:"keys"`
		Array   [2]int            `json:"array"`
		Time    metav1.Time       `json:"time"`
		Times   []*metav1.Time    `json:"times"`
		Port    intstr.IntOrString
		Raw     runtime.RawExtension   `json:"raw"`
		Tree    recursive              `json:"tree"`
		Number  json.Number            `json:"number"`
		Numbers map[string]json.Number `json:"numbers"`
	} `json:"spec"`
}

var seeds = []string{
	`{}`, ` { } `, `null`, `[]`, `{"a":1}x`, `{"kind"`, `{"kind":null,"metadata":null}`,
	`{"Kind":"K","KIND":"L","kind":"M"}`, `{"kind":"a","kind":"b"}`,
	`{"apiVersion":"v1","kind":"K","metadata":{"name":"a","namespace":"b","labels":{"x":"y","z":null},"annotations":{},"creationTimestamp":"2026-01-02T03:04:05Z",
	"deletionTimestamp":null,"finalizers":["a","b"],"generation":7,"ownerReferences":[{"apiVersion":"v1","kind":"O","name":"o","uid":"u","controller":true}],
	"managedFields":[{"manager":"m","operation":"Apply","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"k:{\"name\":\"é\"}":{}}}},
	{"fieldsV1":null},{"fieldsV1":{ "a" : 1 }}]}}`,
	`{"metadata":{"managedFields":[{"fieldsV1":{"a":x}}]}}`, `{"metadata":{"creationTimestamp":"nonsense"}}`,
	`{"metadata":{"creationTimestamp":7}}`,
	`{"spec":{"Bool":true,"int":-1,"uint":3,"float":1.5e3,"pointer":7,"named":"n","bytes":"aGVsbG8=","any":{"a":[1,2.5,"x",null]},"object":{"a":1},"texts":["a",null],
	"labels":{"a":"b"},"plain":{"a":"b","a":"c"},"maps":{"a":[1,2],"b":null,"c":[]},"keys":{"1":"a"},"array":[1,2,3],"time":null,"times":["2026-01-02T03:04:05+02:00",null],
	"Port":"http","raw":{"kind":"X"},"tree":{"items":[{"value":1},{"items":[]}],"named":{"a":{"value":2},"b":null}}},"unknown":{"a":[1,"\u00e9"]}}`,
	`{"spec":{"Port":80,"int":2147483648}}`, `{"spec":{"int":01}}`, `{"spec":{"int":-0}}`, `{"spec":{"int":1.0}}`,
	`{"spec":{"int":1e2}}`, `{"spec":{"int":-}}`, `{"spec":{"int":"1"}}`,
	`{"spec":{"texts":"a"}}`, `{"spec":{"texts":["a",1]}}`, `{"spec":{"texts":["a",]}}`, `{"spec":{"texts":[,]}}`,
	`{"spec":{"texts":["a"}}`, `{"spec":{"plain":{"a":}}}`,
	`{"spec":{"texts":["\u00e9\n","\x","` + "\xff" + `"]}}`, `{"spec":{"n\u0061med":"x"}}`, `{"spec":{"Bool":truex}}`,
	`{"spec":{"Bool":tru}}`, `{"unknown":tru}`, `{"unknown":[1}}`,
	`{"spec":{"bytes":[1,2]}}`, `{"spec":{"bytes":null,"any":null,"pointer":null}}`, `{"spec":{"maps":{"a":{}}}}`,
	`{"spec":{"any":{"a":1,"a":2}}}`,
	`{"inner":"i","deep":"d","text":"2026-01-02T03:04:05Z","quoted":"5","message":[1, 2],"quantity":"1Gi","duration":"5m","int8":127,"micro":"2026-01-02T03:04:05.123456Z"}`,
	`{"spec":{"number":12}}`, `{"spec":{"number":"12"}}`, `{"spec":{"number":"abc"}}`, `{"spec":{"number":""}}`,
	`{"spec":{"number":null}}`, `{"spec":{"numbers":{"a":"1e"}}}`,
	`{"int8":128}`, `{"tree":` + strings.Repeat(`{"items":[`, 300) + strings.Repeat(`]}`, 300) + `}`,
	`{"tree":{"named":{"a":` + strings.Repeat(`{"items":[`, 6000) + `}}}`,
}

// shared is a Sharing that retains all values.
type shared struct{ fields map[string]*metav1.FieldsV1 }

func (shared) Text(b []byte) string                   { return string(b) }
func (shared) Fields([]byte) (map[string]any, bool)   { return nil, false }
func (shared) Keep([]byte, map[string]any)            {}
func (s shared) FieldsV1(raw []byte) *metav1.FieldsV1 { return s.fields[string(raw)] }

// The result equals that of apimachinery's decoder; input that it rejects is rejected.
func FuzzDecode(f *testing.F) {
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "a", Env: []corev1.EnvVar{{Name: "X"}}}}}}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m")}
	pod.Status.StartTime = &metav1.Time{Time: time.Unix(1e9, 0)}
	text, err := json.Marshal(pod)
	require.NoError(f, err)
	for _, seed := range append(seeds, string(text)) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		compare[plain](t, data)
		compare[everything](t, data)
		compare[corev1.Pod](t, data)
		compare[corev1.Secret](t, data)
	})
}

func compare[T any](t *testing.T, data []byte) {
	t.Helper()
	var got, want T
	err := jsondecode.Decode(data, &got, nil, nil)
	wantErr := kjson.UnmarshalCaseSensitivePreserveInts(data, &want)
	switch {
	case err != nil && !errors.Is(err, tree.ErrUnusual):
		t.Errorf("%T: %v", got, err)
	case err == nil && wantErr != nil:
		t.Errorf("%T: %s was decoded, but apimachinery rejects it: %v", got, data, wantErr)
	case err == nil && !reflect.DeepEqual(got, want):
		t.Errorf("%T: %s\nis   %#v\nwant %#v", got, data, got, want)
	}
}

// A json.Number is a number, or a string that contains a number. Other strings are rejected, as by
// apimachinery's decoder.
func TestNumbersAreNumbers(t *testing.T) {
	for value, valid := range map[string]bool{
		`12`: true, `"12"`: true, `-1.5e3`: true, `"-1.5e3"`: true,
		`""`: false, `"abc"`: false, `"1e"`: false, `"1 "`: false, `" 1"`: false, `"NaN"`: false, `"0x1"`: false,
		`true`: false,
	} {
		for _, text := range []string{`{"spec":{"number":` + value + `}}`, `{"spec":{"numbers":{"a":` + value + `}}}`} {
			var got, want plain
			err := jsondecode.Decode([]byte(text), &got, nil, nil)
			wantErr := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &want)
			assert.Equalf(t, valid, wantErr == nil, "%s: apimachinery's decoder says %v", text, wantErr)
			if err == nil && !valid {
				t.Errorf("%s was decoded", text)
			}
			if err == nil && valid && !reflect.DeepEqual(got, want) {
				t.Errorf("%s\nis   %#v\nwant %#v", text, got.Spec, want.Spec)
			}
		}
	}
}

// Ordinary objects are decoded by this package, without apimachinery's decoder.
func TestOrdinaryObjects(t *testing.T) {
	for n, text := range seeds {
		var p plain
		var syntax any
		if err := jsondecode.Decode([]byte(text), &p, nil, nil); err == nil &&
			json.Unmarshal([]byte(text), &syntax) != nil {
			t.Errorf("%d: malformed: %s", n, text)
		}
	}
	for _, n := range []int{9, 13} {
		for _, share := range []jsondecode.Sharing{nil, shared{}} {
			if err := jsondecode.Decode([]byte(seeds[n]), &plain{}, share, nil); err != nil {
				t.Errorf("%v: %s", err, seeds[n])
			}
		}
	}
	if err := jsondecode.Decode([]byte(`{}`), plain{}, nil, nil); err == nil {
		t.Error("Decode copies its input")
	}
}

func TestSharedFields(t *testing.T) {
	known := &metav1.FieldsV1{}
	known.SetRawBytes([]byte(`{"f:a":{}}`))
	var p plain
	data := `{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{}}},{"fieldsV1":{"f:b":{}}}]}}`
	err := jsondecode.Decode([]byte(data), &p, shared{map[string]*metav1.FieldsV1{`{"f:a":{}}`: known}},
		nil)
	require.NoError(t, err)
	if p.ManagedFields[0].FieldsV1 != known || string(p.ManagedFields[1].FieldsV1.GetRawBytes()) != `{"f:b":{}}` {
		t.Errorf("%v", p.ManagedFields)
	}
}

func BenchmarkDecode(b *testing.B) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "u",
		Labels: map[string]string{"a": "b"}}}
	for n := range 3 {
		pod.Spec.Containers = append(pod.Spec.Containers,
			corev1.Container{Name: fmt.Sprint(n), Image: "image", Args: []string{"a", "b"}})
	}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Time: &metav1.Time{Time: time.Unix(1e9, 0)},
		FieldsV1: &metav1.FieldsV1{}}}
	pod.ManagedFields[0].FieldsV1.SetRawBytes(
		[]byte(`{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{}}}}}`))
	data, err := json.Marshal(pod)
	require.NoError(b, err)
	for name, decode := range map[string]func() error{
		"structs":      func() error { return jsondecode.Decode(data, &corev1.Pod{}, nil, nil) },
		"apimachinery": func() error { return kjson.UnmarshalCaseSensitivePreserveInts(data, &corev1.Pod{}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, decode())
			}
		})
	}
}
