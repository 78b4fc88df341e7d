package internal_test

import (
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/jsondecode"
	"kelson.dev/internal/require"
)

type lamp struct {
	Name string `json:"name"`
	Lit  bool   `json:"lit,omitempty"`
}

type lamps struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              map[string]any `json:"spec,omitempty"`
	Status            struct {
		Phase    string              `json:"phase,omitempty"`
		Turns    int                 `json:"turns"`
		Ratio    float64             `json:"ratio,omitempty"`
		Single   float32             `json:"single,omitempty"`
		Since    *metav1.Time        `json:"since,omitempty"`
		Exactly  metav1.MicroTime    `json:"exactly,omitzero"`
		Port     *intstr.IntOrString `json:"port,omitempty"`
		Power    *resource.Quantity  `json:"power,omitempty"`
		Lamps    []lamp              `json:"lamps,omitempty"`
		ByName   map[string]lamp     `json:"byName,omitempty"`
		Labels   map[string]string   `json:"labels,omitempty"`
		Names    []string            `json:"names,omitempty"`
		Any      any                 `json:"any,omitempty"`
		Count    json.Number         `json:"count,omitempty"`
		Nullable *string             `json:"nullable"`
	} `json:"status,omitempty"`
}

type lampList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []lamps `json:"items"`
}

// own has an UnmarshalJSON method.
type own struct{ lamps }

func (o *own) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return errors.New("nothing")
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, &o.lamps)
}

// Decoding reports what the Go type would lose of a status.
func TestLoss(t *testing.T) {
	const whole, members, elements = jsondecode.Whole, jsondecode.InMembers, jsondecode.InElements
	for status, want := range map[string]jsondecode.Loss{
		`null`: members, `{}`: whole, `{"turns":0}`: whole, `{"turns":7,"phase":"On"}`: whole, `{"phase":""}`: members,
		`{"phase":null}`: members, `{"turns":null}`: members,
		`{"new":1}`: members, `{"new":null}`: members, `{"ratio":1.5}`: whole, `{"ratio":1.50}`: whole,
		`{"ratio":0}`: members, `{"ratio":2.0}`: whole,
		`{"single":0.5}`: whole, `{"single":0.123456789}`: members, `{"nullable":null}`: whole,
		`{"nullable":"a"}`:                 whole,
		`{"since":"2026-01-02T03:04:05Z"}`: whole, `{"since":"2026-01-02T03:04:05+02:00"}`: members,
		`{"since":null}`: members,
		`{"exactly":"2026-01-02T03:04:05.123456Z"}`: whole, `{"exactly":null}`: members,
		`{"port":80}`: whole, `{"port":"http"}`: whole, `{"power":"1"}`: whole, `{"power":"1000m"}`: members,
		`{"count":7}`:  whole,
		`{"lamps":[]}`: members, `{"lamps":[{"name":"a"}]}`: whole, `{"lamps":[{"name":"a","watts":60}]}`: elements,
		`{"lamps":[{"name":"a","lit":false}]}`: elements,
		`{"lamps":[{"name":"a","lit":true}]}`:  whole, `{"lamps":[null]}`: elements,
		`{"lamps":[{"name":null}]}`: elements, `{"new":[{"a":1}]}`: members,
		`{"byName":{"a":{"name":"a","watts":1}}}`: members, `{"byName":{"a":null}}`: members, `{"byName":{}}`: members,
		`{"labels":{"a":"b"}}`: whole, `{"labels":{"a":null}}`: members, `{"names":["a"]}`: whole,
		`{"names":[null]}`:                     elements,
		`{"any":{"a":[1,{"b":null}],"c":1.5}}`: whole, `{"any":null}`: members,
		`{"lamps":[{"name":"a","watts":60}],"new":1}`: elements,
	} {
		data := `{"apiVersion":"v1","kind":"Lamps","status":` + status + `,"metadata":{"uid":"u"},"spec":{"a":null}}`
		check := func(name string, into any, data string) {
			t.Helper()
			got := whole
			err := jsondecode.Decode([]byte(data), into, nil, func(obj metav1.Object, what jsondecode.Loss) {
				got = what
				assert.Equalf(t, obj.GetUID(), "u", "%s: of %T", name, obj)
			})
			require.NoErrorf(t, err, "%s %s", name, status)
			if name == "own" && want == members {
				want = elements // the place of the loss is unknown
			}
			assert.Equalf(t, got, want, "%s %s", name, status)
		}
		check("object", &lamps{}, data)
		check("list", &lampList{}, `{"items":[{"metadata":{"uid":"v"},"status":{}},`+data+`,{}]}`)
		check("own", &own{}, data)

		var other lamps
		require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts([]byte(data), &other))
		got := jsondecode.Status([]byte(data), &other)
		assert.Equalf(t, got == whole, want == whole, "Status of %s: %d, want %d", status, got, want)
	}
}

// A status reported as Whole is encoded again as it was decoded.
func FuzzLoss(f *testing.F) {
	for _, status := range []string{`{"phase":"","turns":1,"lamps":[{"name":"a","watts":1}]}`,
		`{"ratio":1.0,"single":0.1,"any":{"a":[null]}}`,
		`{"since":"2026-01-02T03:04:05Z","exactly":null,"port":"x","power":"1000m","byName":{"a":{}},"labels":{"a":null},"names":["a"],"count":1,"nullable":null}`} {
		f.Add([]byte(`{"metadata":{"uid":"u"},"status":` + status + `}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var obj lamps
		lost := jsondecode.Whole
		if string(data) == "null" {
			return
		}
		if jsondecode.Decode(data, &obj, nil, func(_ metav1.Object, what jsondecode.Loss) {
			lost = what
		}) != nil || lost != jsondecode.Whole {
			return
		}
		got := jsondecode.Status(data, &obj)
		assert.Equalf(t, got, jsondecode.Whole, "%s is whole, but as %+v it is not", data, obj.Status)
	})
}
