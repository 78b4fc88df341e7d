package apitest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

const scaledDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"fleets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"fleets","singular":"fleet","kind":"Fleet","listKind":"FleetList"},
"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
"additionalPrinterColumns":[{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"},{"name":"Colour","type":"string","jsonPath":".spec.colour"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"replicas":{"type":"integer"},"colour":{"type":"string"}}},
"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}}]}}`

// A client that writes the scale owns the replicas, with the operation that it used.
func TestScaleOwnership(t *testing.T) {
	p := apitest.New(t)
	p.Define(t, scaledDefinition)
	for _, kind := range []struct{ path, body string }{
		{"/apis/apps/v1/namespaces/default/deployments", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":1,
			"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
		{"/apis/example.com/v1/namespaces/default/fleets",
			`{"apiVersion":"example.com/v1","kind":"Fleet","metadata":{"name":"x"},"spec":{"replicas":1}}`},
	} {
		apply := "Content-Type: application/apply-patch+yaml"
		p.Want(t, 201, "PATCH", kind.path+"/x?fieldManager=author", kind.body, apply)
		scale := `{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":3}}`
		conflict := p.Want(t, 409, "PATCH", kind.path+"/x/scale?fieldManager=scaler", scale, apply)
		if got := conflict["message"].(string); !strings.HasPrefix(got,
			`Apply failed with 1 conflict: conflict with "author"`) || !strings.Contains(got, ".spec.replicas") {
			t.Errorf("%s: %v", kind.path, got)
		}
		answer := p.Want(t, 200, "PATCH", kind.path+"/x/scale?fieldManager=scaler&force=true", scale, apply)
		if answer["kind"] != "Scale" || apitest.At(answer, "spec", "replicas") != 3.0 {
			t.Errorf("%s: %v", kind.path, answer)
		}
		obj := p.Want(t, 200, "GET", kind.path+"/x", "")
		if got := owners(t, obj); !slices.Contains(got, "scaler Apply scale owns replicas") ||
			slices.Contains(got, "author Apply  owns replicas") {
			t.Errorf("%s: %q", kind.path, got)
		}
		p.Want(t, 200, "PUT", kind.path+"/x/scale?fieldManager=putter",
			`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"x","namespace":"default"},"spec":{"replicas":5}}`)
		obj = p.Want(t, 200, "GET", kind.path+"/x", "")
		if got := owners(t, obj); !slices.Contains(got, "putter Update scale owns replicas") ||
			slices.Contains(got, "scaler Apply scale owns replicas") {
			t.Errorf("%s: %q", kind.path, got)
		}
		p.Want(t, 200, "PATCH", kind.path+"/x/scale?fieldManager=merger", `{"spec":{"replicas":6}}`, mergePatch)
		obj = p.Want(t, 200, "GET", kind.path+"/x", "")
		if got := owners(t, obj); !slices.Contains(got, "merger Update scale owns replicas") {
			t.Errorf("%s: %q", kind.path, got)
		}
	}
}

// owners lists the entries of managedFields and whether each has the replicas.
func owners(t *testing.T, obj apitest.Object) (out []string) {
	t.Helper()
	raw, err := json.Marshal(apitest.At(obj, "metadata", "managedFields"))
	require.NoError(t, err)
	var entries []struct {
		Manager, Operation, Subresource string
		FieldsV1                        map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal(raw, &entries))
	for _, e := range entries {
		owns := "does not own it"
		if _, ok := e.FieldsV1["f:spec"]["f:replicas"]; ok {
			owns = "owns replicas"
		}
		out = append(out, fmt.Sprint(e.Manager, " ", e.Operation, " ", e.Subresource, " ", owns))
	}
	return out
}
