package crd

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"kelson.dev/apiserver/crd/managedfields"
)

// CRD-01: the library would not change the managedFields that detach returns.
func TestDetachedFieldsAreExact(t *testing.T) {
	for _, c := range []struct {
		list string
		want bool
	}{
		{`[{"manager":"m","operation":"Update","apiVersion":"a/v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:a<b":{}}}}]`, true},
		{`[{"manager":"m"},{"subresource":"status","fieldsV1":{}}]`, true},
		{`[{}]`, true},
		{`[]`, false},
		{`[{"manager":""}]`, false},
		{`[{"manager":1}]`, false},
		{`[{"Manager":"m"}]`, false},
		{`[{"time":"2026-01-02T03:04:05+01:00"}]`, false},
		{`[{"time":"2026-01-02T03:04:05.5Z"}]`, false},
		{`[{"time":"0001-01-01T00:00:00Z"}]`, false},
		{`[{"time":null}]`, false},
		{`[{"time":"now"}]`, false},
		{`[{"fieldsV1":{"f:a":1}}]`, false},
		{`[{"fieldsV1":null}]`, false},
		{`[{"other":"x"}]`, false},
		{`["x"]`, false},
		{`"x"`, false},
	} {
		u := &unstructured.Unstructured{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(`{"metadata":{"name":"n","managedFields":`+c.list+`}}`), &u.Object); err != nil {
			t.Fatal(err)
		}
		before := u.DeepCopy()
		list := (&compiled{fields: managedfields.NewCache()}).detach(u)
		if (list != nil) != c.want {
			t.Errorf("%s: detached: %v", c.list, list != nil)
		}
		attach(u, list)
		if !reflect.DeepEqual(u, before) {
			t.Errorf("%s: %v, was %v", c.list, u, before)
		}
		if list == nil {
			continue
		}
		meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
		if err == nil {
			err = objectmeta.SetObjectMeta(u.Object, meta)
		}
		if err != nil || len(unknown) > 0 {
			t.Fatalf("%s: %v %v", c.list, err, unknown)
		}
		got, _ := json.Marshal(u.Object)
		want, _ := json.Marshal(before.Object)
		if string(got) != string(want) {
			t.Errorf("%s: the library makes %s of %s", c.list, got, want)
		}
	}
}
