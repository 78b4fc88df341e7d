package builtin

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// API-11
func TestNullEmptyLists(t *testing.T) {
	for in, want := range map[string]string{
		`{"rules":[]}`:                    `{"rules":null}`,
		`{"rules":[],"a":{"b":[]}}`:       `{"rules":null,"a":{"b":null}}`,
		`{"a":":[]","b":"\":[]","c":[]}`:  `{"a":":[]","b":"\":[]","c":null}`,
		`{"a":"\\","b":[],"c":[[]]}`:      `{"a":"\\","b":null,"c":[[]]}`,
		`{"a":[{"b":[]},[1]],"v:[]":{}}`:  `{"a":[{"b":null},[1]],"v:[]":{}}`,
		`{"a":["[]"],"b":"x:[]","c":"é"}`: `{"a":["[]"],"b":"x:[]","c":"é"}`,
	} {
		if got := string(nullEmptyLists([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for value, want := range map[any]bool{&rbacv1.ClusterRole{}: false, &appsv1.ControllerRevision{}: true, &appsv1.Deployment{}: false} {
		if got := holdsRaw(reflect.TypeOf(value), map[reflect.Type]bool{}); got != want {
			t.Errorf("%T holds raw JSON: %v", value, got)
		}
	}
}
