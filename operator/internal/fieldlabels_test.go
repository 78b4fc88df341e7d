package internal_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/internal/fieldlabels"
)

type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Count  int             `json:"count,omitempty"`
		Always bool            `json:"always"`
		Maybe  *bool           `json:"maybe,omitempty"`
		Name   string          `json:"name"`
		Ratio  float64         `json:"ratio,omitempty"`
		Since  *metav1.Time    `json:"since,omitempty"`
		Flags  map[string]bool `json:"flags,omitempty"`
		List   []string        `json:"list,omitempty"`
		Inner  *struct {
			Count int `json:"count,omitempty"`
		} `json:"inner,omitempty"`
	} `json:"spec"`
}

// The value of a field selector is the same for typed, dynamic and encoded objects, or is reported
// as uncertain. Unknown fields are errors.
func TestOf(t *testing.T) {
	const certain, orUnset, uncertain = fieldlabels.Certain, fieldlabels.OrUnset, fieldlabels.Uncertain
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	for _, tt := range []struct {
		spec, label, want string
		known             fieldlabels.Certainty // of the Go type
	}{
		{`{}`, "spec.count", "", orUnset}, {`{"count":0}`, "spec.count", "0", orUnset},
		{`{"count":7}`, "spec.count", "7", certain},
		{`{}`, "spec.always", "", orUnset}, {`{"always":false}`, "spec.always", "false", orUnset},
		{`{"always":true}`, "spec.always", "true", certain},
		{`{}`, "spec.maybe", "", certain}, {`{"maybe":null}`, "spec.maybe", "", certain},
		{`{"maybe":false}`, "spec.maybe", "false", certain},
		{`{}`, "spec.name", "", certain}, {`{"name":""}`, "spec.name", "", certain},
		{`{"name":"0"}`, "spec.name", "0", certain},
		{`{"ratio":1000000}`, "spec.ratio", "1000000", certain}, {`{"ratio":1.50}`, "spec.ratio", "1.5", certain},
		{`{}`, "spec.since", "", certain}, {`{"since":"2026-01-02T03:04:05Z"}`, "spec.since", "2026-01-02T03:04:05Z",
			uncertain},
		{`{}`, "spec.flags.a", "", certain}, {`{"flags":{"a":false}}`, "spec.flags.a", "false", certain},
		{`{}`, "spec.list", "", certain}, {`{"list":["a","b"]}`, "spec.list", "[a b]", certain},
		{`{}`, "spec.inner.count", "", certain}, {`{"inner":{}}`, "spec.inner.count", "", orUnset},
		{`{"inner":{"count":0}}`, "spec.inner.count", "0", orUnset},
		{`{}`, "metadata.generation", "", certain}, {`{}`, "metadata.name", "n", certain},
		{`{}`, "metadata.namespace", "", certain},
	} {
		data := []byte(`{"metadata":{"name":"n"},"spec":` + tt.spec + `}`)
		var typed thing
		u := &unstructured.Unstructured{}
		if json.Unmarshal(data, &typed) != nil || json.Unmarshal(data, &u.Object) != nil {
			t.Fatal(tt.spec)
		}
		if n, ok := u.Object["spec"].(map[string]any)["ratio"]; ok && n == float64(1000000) {
			// as the decoders of Kubernetes have it
			u.Object["spec"].(map[string]any)["ratio"] = int64(1000000)
		}
		value, known, err := fieldlabels.Of(&typed, kind, tt.label)
		if err != nil || known != tt.known || value != tt.want && !known.MayBe(tt.want, value) {
			t.Errorf("%s of %s in a Go type: %q %d %v, want %q %d", tt.label, tt.spec, value, known, err, tt.want,
				tt.known)
		}
		if value, known, err = fieldlabels.Of(u, kind, tt.label); err != nil || known != certain || value != tt.want {
			t.Errorf("%s of %s unstructured: %q %d %v, want %q", tt.label, tt.spec, value, known, err, tt.want)
		}
		if value, err = fieldlabels.Encoded(data, kind, tt.label); err != nil || value != tt.want {
			t.Errorf("%s of %s encoded: %q %v, want %q", tt.label, tt.spec, value, err, tt.want)
		}
	}
	if _, _, err := fieldlabels.Of(&thing{}, kind, "spec.nothing"); !apierrors.IsBadRequest(err) {
		t.Errorf("an unknown field: %v", err)
	}
	if _, _, err := fieldlabels.Of(&metav1.PartialObjectMetadata{}, kind, "spec.count"); !apierrors.IsBadRequest(err) {
		t.Errorf("a field of metadata: %v", err)
	}
	pod := corev1.SchemeGroupVersion.WithKind("Pod")
	for label, want := range map[string]string{"spec.hostNetwork": "false", "spec.host": "node", "spec.hostPID": "",
		"status.podIPs": "", "spec.priority": ""} {
		value, known, err := fieldlabels.Of(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"},
			Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "a"}}}}, pod, label)
		if err != nil || value != want || known != certain {
			t.Errorf("%s of a pod: %q %d %v, want %q", label, value, known, err, want)
		}
	}
}
