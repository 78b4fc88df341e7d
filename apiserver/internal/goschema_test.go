package internal_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/apiserver/goschema"
	"kelson.dev/internal/require"
)

type base struct {
	Shared string `json:"shared"`
}

type sample struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	base              `json:",inline"`
	Count             int32              `json:"count"`
	Size              resource.Quantity  `json:"size,omitempty"`
	Port              intstr.IntOrString `json:"port,omitempty"`
	Since             *metav1.Time       `json:"since,omitempty"`
	Blob              []byte             `json:"blob,omitempty"`
	Labels            map[string]string  `json:"labels,omitempty"`
	Conditions        []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	Names             []string           `json:"names,omitempty" patchStrategy:"merge"`
	Self              *sample            `json:"self,omitempty"`
	Any               any                `json:"any,omitempty"`
	Inner             inner              `json:"inner,omitzero"`
	Hidden            string             `json:"-"`
}

func (sample) SwaggerDoc() map[string]string {
	return map[string]string{"": "A sample.", "count": "How many."}
}

type described struct {
	Text string `json:"text,omitempty"`
}

func (described) SwaggerDoc() map[string]string {
	return map[string]string{"": "An embedded struct.", "text": "A text."}
}

type inner struct {
	described `json:",inline"`
	Parts     []base   `json:"parts,omitempty"`
	Words     []string `json:"words,omitempty"`
	Pair      *base    `json:"pair,omitempty"`
}

func (inner) OpenAPIMerge() map[string][]string {
	return map[string][]string{"parts": {"map", "shared"}, "words": {"set"}, "pair": {"atomic"}}
}

func TestOf(t *testing.T) {
	got, err := goschema.Of(reflect.TypeFor[sample]())
	require.NoError(t, err)
	delete(got.Properties["conditions"].Items.Schema.Properties, "message") // enough of it remains
	data, err := json.Marshal(got)
	require.NoError(t, err)
	for _, want := range []string{
		`"description":"A sample."`,
		`"apiVersion":{"type":"string"}`,
		`"metadata":{"type":"object"}`,
		`"count":{"description":"How many.","type":"integer","format":"int32"}`,
		`"size":{"x-kubernetes-int-or-string":true}`,
		`"port":{"x-kubernetes-int-or-string":true}`,
		`"since":{"type":"string","format":"date-time"}`,
		`"blob":{"type":"string","format":"byte"}`,
		`"labels":{"type":"object","additionalProperties":{"type":"string"}}`,
		`"x-kubernetes-list-map-keys":["type"],"x-kubernetes-list-type":"map"`,
		`"names":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}`,
		`"self":{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
		`"required":["count","shared"]`,
		// without the description of the struct that it embeds
		`"inner":{"type":"object","properties":{`,
		`"text":{"description":"A text.","type":"string"}`,
		`"x-kubernetes-list-map-keys":["shared"],"x-kubernetes-list-type":"map"`,
		`"words":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}`,
		`"x-kubernetes-map-type":"atomic"`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("missing %s in\n%s", want, data)
		}
	}
	if _, found := got.Properties["Hidden"]; found || strings.Contains(string(data), "Hidden") {
		t.Error("a field without JSON form is in the schema")
	}
}

// Of derives the schema of Kubernetes' largest type.
func TestOfPod(t *testing.T) {
	got, err := goschema.Of(reflect.TypeFor[corev1.Pod]())
	require.NoError(t, err)
	containers := got.Properties["spec"].Properties["containers"]
	if containers.XListType == nil || *containers.XListType != "map" || containers.XListMapKeys[0] != "name" {
		t.Errorf("containers: %+v", containers)
	}
}

func TestNoJSON(t *testing.T) {
	if _, err := goschema.Of(reflect.TypeFor[struct{ C chan int }]()); err == nil {
		t.Error("a channel has a schema")
	}
}
