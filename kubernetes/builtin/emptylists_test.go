package builtin

import (
	"encoding/json"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Empty lists that are values of fields become null. Lists in lists and text in strings stay as
// they are.
func TestNullEmptyLists(t *testing.T) {
	for in, want := range map[string]string{
		`{"rules":[]}`:                    `{"rules":null}`,
		`{"rules":[],"a":{"b":[]}}`:       `{"rules":null,"a":{"b":null}}`,
		`{"a":":[]","b":"\":[]","c":[]}`:  `{"a":":[]","b":"\":[]","c":null}`,
		`{"a":"\\","b":[],"c":[[]]}`:      `{"a":"\\","b":null,"c":[[]]}`,
		`{"a":[{"b":[]},[1]],"v:[]":{}}`:  `{"a":[{"b":null},[1]],"v:[]":{}}`,
		`{"a":["[]"],"b":"x:[]","c":"é"}`: `{"a":["[]"],"b":"x:[]","c":"é"}`,
	} {
		assert.Equalf(t, string(nullEmptyLists([]byte(in))), want, "%s", in)
	}
	for value, want := range map[any]bool{&rbacv1.ClusterRole{}: false, &appsv1.ControllerRevision{}: true,
		&appsv1.Deployment{}: false} {
		got := holdsRaw(reflect.TypeOf(value), map[reflect.Type]bool{})
		assert.Equalf(t, got, want, "%T holds raw JSON", value)
	}
}

// Lists of the kind are dropped, those in raw JSON are kept.
func TestWithoutEmptyLists(t *testing.T) {
	claim := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests:    []resourcev1.DeviceRequest{},
		Constraints: []resourcev1.DeviceConstraint{{Requests: []string{}}},
		Config: []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
			Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: "d",
				Parameters: runtime.RawExtension{Raw: []byte(`{"a":[]}`)}},
		}}},
	}}}
	got, err := json.Marshal(withoutEmptyLists(claim).(*resourcev1.ResourceClaim).Spec)
	require.NoError(t, err)
	want := `{"devices":{"requests":null,"constraints":[{}],"config":[{"opaque":{"driver":"d","parameters":{"a":[]}}}]}}`
	assert.Equal(t, string(got), want)
	if claim.Spec.Devices.Requests == nil {
		t.Error("the object itself was changed")
	}
}
