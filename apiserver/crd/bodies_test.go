package crd_test

import (
	"strings"
	"testing"

	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"kelson.dev/internal/require"
)

// Bodies and patches with the kind or version of another path are refused.
func TestBodiesOfOtherVersions(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	body := widget("a", `{"color":"red"}`)
	p.do("POST", widgetsPath, body).want(201)

	a := p.do("POST", widgetsPath, strings.Replace(body, "example.com/v1", "example.com/v9", 1)).want(400)
	if a.message() != "the API version in the data (example.com/v9) does not match the expected API version (example.com/v1)" || len(a.warnings) != 1 || a.warnings[0] != `unknown field "spec"` {
		t.Errorf("%s %q", a.message(), a.warnings)
	}
	a = p.do("POST", widgetsPath, strings.Replace(body, "example.com/v1", "a/b/c", 1)).want(400)
	if !strings.HasPrefix(a.message(), "the object provided is unrecognized (must be of type Widget): unexpected GroupVersion string: a/b/c (") {
		t.Error(a.message())
	}
	a = p.do("POST", widgetsPath, strings.Replace(body, `"Widget"`, "1", 1)).want(400)
	if !strings.HasPrefix(a.message(), "the object provided is unrecognized (must be of type Widget): couldn't get version/kind; json parse error: json: cannot unmarshal number") {
		t.Error(a.message())
	}
	for media, patch := range map[string]string{
		"application/json-patch+json":  `[{"op":"replace","path":"/apiVersion","value":"v9"}]`,
		"application/merge-patch+json": `{"apiVersion":"v9"}`,
	} {
		a = p.do("PATCH", widgetsPath+"/a", patch, "Content-Type", media).want(422)
		if a.message() != `Widget "a" is invalid: apiVersion: Invalid value: "v9": must be example.com/v1` {
			t.Error(a.message())
		}
	}
}

// Unknown fields in CBOR cause no warnings, as in Kubernetes.
func TestUnknownFieldsInCBOR(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	body, err := cbor.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "a"},
		"spec":     map[string]any{"color": "red"}, "unknown": 1})
	require.NoError(t, err)
	a := p.do("POST", widgetsPath+"?fieldValidation=Strict", string(body), "Content-Type", "application/cbor").want(201)
	if a.field("unknown") != nil || a.field("spec.color") != "red" {
		t.Errorf("%s", a.body)
	}
}

// An apply drops nulls that the schema forbids.
func TestAppliedNulls(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	body := strings.Replace(widget("a", `{"color":"red","note":null,"replicas":null}`), `"name":"a"`,
		`"name":"a","labels":null`, 1)
	for range 2 {
		a := p.do("PATCH", widgetsPath+"/a?fieldManager=m", body, "Content-Type", "application/apply-patch+yaml")
		text := string(a.body)
		if a.code/100 != 2 || strings.Contains(text, `"labels":null`) || !strings.Contains(text, `"note":null`) ||
			!strings.Contains(text, `"replicas":1`) {
			t.Errorf("%d %s", a.code, a.body)
		}
	}
}
