package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func TestScanHead(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		name, data string
		want       Head
		spliced    string // with revision 42
	}{
		{"empty metadata", `{"metadata":{}}`, Head{}, `{"metadata":{"resourceVersion":"42"}}`},
		{"empty metadata with space", ` { "metadata" : { } } `, Head{}, ` { "metadata" : {"resourceVersion":"42" } } `},
		{"inserted", `{"metadata":{"uid":"u"},"spec":{}}`, Head{UID: "u"},
			`{"metadata":{"resourceVersion":"42","uid":"u"},"spec":{}}`},
		{"replaced", `{"metadata":{"uid":"u","resourceVersion" : "123456","generation":7}}`,
			Head{UID: "u", Generation: 7},
			`{"metadata":{"uid":"u","resourceVersion" : "42","generation":7}}`},
		{"null replaced", `{"metadata":{"resourceVersion":null}}`, Head{}, `{"metadata":{"resourceVersion":"42"}}`},
		{"data first", `{"data":{"metadata":{"uid":"no"},"x":["}",{"y":"\"}"}]},"metadata":{"uid":"yes"}}`,
			Head{UID: "yes"},
			`{"data":{"metadata":{"uid":"no"},"x":["}",{"y":"\"}"}]},"metadata":{"resourceVersion":"42","uid":"yes"}}`},
		{"everything", `{"kind":"Pod","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:05Z",
			"labels":{"a":"1","b\u0062":"zwö\n"},"finalizers":["x/y","z"],"managedFields":[{"f":{"uid":"no"}}],"ownerReferences":[
			{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"o1","controller":true,"blockOwnerDeletion":true,"x":[1,{}]},
			{"uid":"o2","controller":false}]}}`,
			Head{CreationTimestamp: at, DeletionTimestamp: at, Labels: map[string]string{"a": "1", "bb": "zwö\n"},
				Finalizers: []string{"x/y", "z"},
				Owners:     []Owner{{"apps/v1", "ReplicaSet", "rs", "o1", true, true}, {UID: "o2"}}}, ""},
		{"nulls", `{"metadata":{"uid":null,"generation":null,"labels":null,"finalizers":null,"ownerReferences":null,"creationTimestamp":null}}`, Head{}, ""},
		{"exact names", `{"Metadata":{"uid":"no"},"metadata":{"UID":"no"}}`, Head{}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			head, at, err := scanHead([]byte(test.data))
			require.NoError(t, err)
			if !reflect.DeepEqual(head, test.want) {
				t.Errorf("got  %+v\nwant %+v", head, test.want)
			}
			spliced, _ := at.splice([]byte(test.data), 42)
			if test.spliced != "" && string(spliced) != test.spliced {
				t.Errorf("got  %s\nwant %s", spliced, test.spliced)
			}
		})
	}
}

func TestScanHeadRejects(t *testing.T) {
	for _, data := range []string{
		``, `null`, `[]`, `"metadata"`, `{`, `{}`, `{"metadata"}`, `{"metadata":`, `{"metadata":null}`,
		`{"metadata":[]}`, `{"metadata":{`,
		`{"metadata":{"uid":7}}`, `{"metadata":{"uid":"u}}`, `{"metadata":{"uid":"u\`, `{"metadata":{"uid":"\x"}}`,
		`{"metadata":{"labels":[]}}`, `{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"generation":"1"}}`,
		`{"metadata":{"generation":1.5}}`,
		`{"metadata":{"creationTimestamp":"yesterday"}}`, `{"metadata":{"creationTimestamp":""}}`,
		`{"metadata":{"finalizers":"x"}}`,
		`{"metadata":{"ownerReferences":[1]}}`, `{"metadata":{"ownerReferences":[{"controller":"true"}]}}`,
		`{"metadata":{"resourceVersion":"1","resourceVersion":"2"}}`, `{"metadata":{"resourceVersion":1}}`,
		`{"metadata":{"uid":"a" "generation":1}}`, `{"spec":{"a":[}`, `{"spec":,"metadata":{}`[:8],
	} {
		if head, _, err := scanHead([]byte(data)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %+v, %v", data, head, err)
		}
	}
}

// FuzzScanHead compares the scanner with encoding/json. For every document that the library
// accepts, both find the same head, and a spliced document differs only in the resourceVersion.
func FuzzScanHead(f *testing.F) {
	f.Add([]byte(`{"metadata":{}}`))
	f.Add([]byte(`{"a":[{"b":"\"]"}],"metadata":{"labels":{"a":"\u00e9\ud83d\ude00"},"resourceVersion":"1"},"z":1e9}`))
	f.Add([]byte(`{"metadata":{"uid":"u","generation":3,"finalizers":["a"],"deletionTimestamp":"2026-01-02T03:04:05.5+01:00"}}`))
	f.Add([]byte(`{"metadata":{"ownerReferences":[{"uid":"o","controller":true,"blockOwnerDeletion":null},null]},"spec":null}`))
	f.Add([]byte(" {\n\t\"metadata\" : { \"uid\" : null } , \"x\" : [ true , false ] }"))
	f.Fuzz(func(t *testing.T, data []byte) {
		head, at, err := scanHead(data)
		if !json.Valid(data) {
			return // the scanner may accept it, but must not panic
		}
		want, wantErr := decodeHead(data)
		if errors.Is(wantErr, errOutside) {
			return
		}
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("scanner: %v, library: %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(head, want) {
			t.Fatalf("scanner: %+v\nlibrary: %+v", head, want)
		}
		var before, after map[string]any
		spliced, where := at.splice(data, 1<<63)
		again, _ := where.splice(spliced, 7)
		require.NoErrorf(t, json.Unmarshal(again, &after), "spliced %q", again)
		require.NoError(t, json.Unmarshal(data, &before))
		metadata := before["metadata"].(map[string]any)
		var alone any
		if err := json.Unmarshal((&Object{Data: data}).Metadata(), &alone); err != nil ||
			!reflect.DeepEqual(alone, before["metadata"]) {
			t.Fatalf("%q\nmetadata %v, %v", data, alone, err)
		}
		metadata["resourceVersion"] = "7"
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q\nspliced %q", data, again)
		}
		if _, end, err := scanHead(again); err != nil || end != where && end.start != where.start {
			t.Fatalf("%q: found at %+v, said to be at %+v (%v)", again, end, where, err)
		}
	})
}

// errOutside means that no codec writes such a document. The scanner and the library may differ on
// it.
var errOutside = errors.New("outside the comparison")

// decodeHead does the work of scanHead with encoding/json.
func decodeHead(data []byte) (head Head, err error) {
	top, err := members(data)
	if err != nil {
		return head, err
	}
	raw, ok := top["metadata"]
	if !ok {
		return head, errors.New("no metadata")
	}
	metadata, err := members(raw)
	if err != nil {
		return head, err
	}
	var discard string
	var owners []json.RawMessage
	for name, into := range map[string]any{
		"resourceVersion": &discard, "uid": &head.UID, "generation": &head.Generation, "labels": &head.Labels,
		"finalizers": &head.Finalizers, "creationTimestamp": &head.CreationTimestamp,
		"deletionTimestamp": &head.DeletionTimestamp,
		"ownerReferences":   &owners,
	} {
		if raw := metadata[name]; raw != nil {
			if err := json.Unmarshal(raw, into); err != nil {
				if strings.HasSuffix(name, "Timestamp") {
					// time.Parse accepts some times that time.UnmarshalJSON rejects.
					return head, errOutside
				}
				return head, err
			}
		}
	}
	for _, raw := range owners {
		var o Owner
		if string(raw) == "null" {
			head.Owners = append(head.Owners, o)
			continue
		}
		owner, err := members(raw)
		if err != nil {
			return head, err
		}
		for name, into := range map[string]any{"apiVersion": &o.APIVersion, "kind": &o.Kind, "name": &o.Name,
			"uid":        &o.UID,
			"controller": &o.Controller, "blockOwnerDeletion": &o.BlockOwnerDeletion} {
			if raw := owner[name]; raw != nil {
				if err := json.Unmarshal(raw, into); err != nil {
					return head, err
				}
			}
		}
		head.Owners = append(head.Owners, o)
	}
	if len(head.Labels) == 0 {
		head.Labels = nil
	}
	if len(head.Finalizers) == 0 {
		head.Finalizers = nil
	}
	return head, nil
}

// members returns the members of a JSON object. It returns errOutside for repeated names.
func members(data []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("no object: %v %v", open, err)
	}
	all := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if _, twice := all[name.(string)]; twice {
			return nil, errOutside
		}
		all[name.(string)] = value
	}
	return all, nil
}

func TestInvalidUTF8BecomesReplacementCharacter(t *testing.T) {
	head, _, err := scanHead([]byte("{\"metadata\":{\"uid\":\"a\xff\"}}"))
	if want := types.UID("a" + string(utf8.RuneError)); err != nil || head.UID != want {
		t.Errorf("got %q, %v, want %q", head.UID, err, want)
	}
}

// pod returns an object of about size bytes, in Kubernetes' stored form.
func pod(name string, size int) []byte {
	s := fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":"%s-5f2d-4c3a-9a3e-0123456789ab",`+
		`"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"web","pod-template-hash":"6d4cf56db6"},"ownerReferences":[{"apiVersion":"apps/v1",`+
		`"kind":"ReplicaSet","name":"web-6d4cf56db6","uid":"o-%d","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kelson",`+
		`"operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]},`+
		`"spec":{"containers":[{"name":"web","image":"nginx","terminationMessagePath":"`, name, name, len(name))
	return []byte(s + strings.Repeat("x", max(0, size-len(s)-len(`"}]}}`))) + `"}]}}`)
}

func BenchmarkScanHead(b *testing.B) {
	data := pod("web-6d4cf56db6-x", 1024)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		_, _, err := scanHead(data)
		require.NoError(b, err)
	}
}

func BenchmarkSplice(b *testing.B) {
	data := pod("web-"+strconv.Itoa(7), 1024)
	_, at, err := scanHead(data)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		at.splice(data, 123456)
	}
}

func TestWithoutManagedFields(t *testing.T) {
	for _, test := range []struct{ data, want string }{
		{`{"metadata":{"name":"a","managedFields":[{"f":{"b":"]}"}}]},"spec":{}}`, `{"metadata":{"name":"a"},"spec":{}}`},
		{`{"spec":{"managedFields":1},"metadata":{"managedFields":[],"name":"a"}}`,
			`{"spec":{"managedFields":1},"metadata":{"name":"a"}}`},
		{`{"metadata":{"managedFields":null}}`, `{"metadata":{}}`},
		{` { "metadata" : { "managedFields" : [ ] , "name" : "a" , "uid" : "b" } } `,
			` { "metadata" : { "name" : "a" , "uid" : "b" } } `},
		{`{"metadata":{"name":"a" , "managedFields":[] , "uid":"b"}}`, `{"metadata":{"name":"a" , "uid":"b"}}`},
		{`{"metadata":{"name":"a"}}`, ""},
		{`{"metadata":null}`, ""},
		{`{"metadata":{"managedFields":[`, ""},
		{`[]`, ""},
	} {
		got := (&Object{Data: []byte(test.data)}).WithoutManagedFields()
		assert.Equal(t, string(got), cmp.Or(test.want, test.data))
	}
}
