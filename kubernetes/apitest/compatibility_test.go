package apitest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/rest"
	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
)

// Paths that resemble API paths but don't exist.
func TestUnknownPaths(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"default"}}`)
	for _, path := range []string{
		"GET /api/v1/namespaces/default/namespaces", "GET /api/v1/namespaces/default/namespaces/default",
		"POST /api/v1/namespaces/default/namespaces",
		"POST /apis/authorization.k8s.io/v1/localsubjectaccessreviews",
		"GET /apis/authorization.k8s.io/v1/localsubjectaccessreviews",
		"GET /api/v1/proxy/namespaces/default/pods/a", "POST /api/v1/proxy/namespaces/default/pods/a",
		"GET /api/v1/watch/componentstatuses", "GET /apis//v1/namespaces/default/pods",
	} {
		method, path, _ := strings.Cut(path, " ")
		if status := p.Want(t, 404, method, path,
			"{}"); status["message"] != "the server could not find the requested resource" {
			t.Errorf("%s %s: %v", method, path, status)
		}
	}
	p.Want(t, 200, "GET", "/api/v1/namespaces/default", "")
}

// A deletion that skips reading the object is refused if the object is readable, the kind does not
// support such deletions, or the user may not request them.
func TestUnsafeDeletion(t *testing.T) {
	p := apitest.New(t, func(cfg *rest.Config) {
		cfg.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context,
			a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetVerb() == "unsafe-delete-ignore-read-errors" && a.GetName() == "no" {
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		})
	})
	const unsafe = "?ignoreStoreReadErrorWithClusterBreakingPotential=true"
	p.Want(t, 201, "POST", maps, configMap("a", ""))
	p.Want(t, 409, "DELETE", maps+"/a"+unsafe, "")
	p.Want(t, 201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"n"}}`)
	p.Want(t, 500, "DELETE", "/api/v1/namespaces/n"+unsafe, "")
	p.Want(t, 201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"r"}}`)
	p.Want(t, 500, "DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/r"+unsafe, "")
	status := p.Want(t, 403, "DELETE", maps+"/no"+unsafe, "")
	if status["message"] != `configmaps "no" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: ` {
		t.Errorf("%v", status)
	}
	p.Want(t, 422, "DELETE", maps+unsafe, "")
	p.Want(t, 200, "GET", maps+"/a", "")
}

// Preconditions of namespaces have their own error messages, and a namespace that is held by
// finalizers does not change with further requests.
func TestDeletionOfHeldNamespace(t *testing.T) {
	p := apitest.New(t)
	const path = "/api/v1/namespaces/n"
	p.Want(t, 201, "POST", "/api/v1/namespaces",
		`{"metadata":{"name":"n"},"spec":{"finalizers":["example.com/keeper"]}}`)
	status := p.Want(t, 409, "DELETE", path, `{"preconditions":{"uid":"u"}}`)
	got := status["message"].(string)
	assert.Contains(t, got, "Precondition failed: UID in precondition: u, UID in object meta: ")
	status = p.Want(t, 409, "DELETE", path, `{"preconditions":{"resourceVersion":"1"}}`)
	if got := status["message"].(string); !strings.Contains(got,
		"Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: ") {
		t.Error(got)
	}
	p.Want(t, 200, "DELETE", path, "")
	first := p.Want(t, 200, "GET", path, "")
	again := p.Want(t, 200, "DELETE", path+"?propagationPolicy=Foreground", "")
	assert.Equalf(t, fmt.Sprint(first), fmt.Sprint(again), "first\n%v\nagain\n%v", first, again)
}

// The deletion of a definition sets no grace period and does not change its generation.
func TestDeletionOfDefinition(t *testing.T) {
	p := apitest.New(t)
	p.Define(t, scaledDefinition)
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/fleets.example.com"
	status := p.Want(t, 409, "DELETE", path, `{"preconditions":{"uid":"u"}}`)
	got := status["message"].(string)
	assert.Contains(t, got, "precondition failed: UID in precondition: u, UID in object meta: ")
	gone := p.Want(t, 200, "DELETE", path+"?propagationPolicy=Foreground", "")
	meta := gone["metadata"].(apitest.Object)
	if _, grace := meta["deletionGracePeriodSeconds"]; grace || meta["generation"] != 1.0 ||
		meta["deletionTimestamp"] == nil ||
		fmt.Sprint(meta["finalizers"]) != "[customresourcecleanup.apiextensions.k8s.io]" {
		t.Errorf("%v", meta)
	}
}

// kube-apiserver has no watch cache for events, so a limit applies at resourceVersion 0, too, and
// GET returns 400.
func TestEventsAreNotCached(t *testing.T) {
	p := apitest.New(t)
	const events = "/api/v1/namespaces/default/events"
	for _, name := range []string{"a", "b", "c"} {
		p.Want(t, 201, "POST", events, fmt.Sprintf(
			`{"metadata":{"name":%q},"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"type":"Normal"}`,
			name))
		p.Want(t, 201, "POST", maps, configMap(name, ""))
	}
	for path, want := range map[string]int{events: 1, "/apis/events.k8s.io/v1/namespaces/default/events": 1, maps: 3} {
		got := p.Want(t, 200, "GET", path+"?resourceVersion=0&limit=1", "")["items"].([]any)
		assert.Equalf(t, len(got), want, "%s", path)
	}
	status := p.Want(t, 400, "GET", events+"/a?resourceVersion=abc", "")
	if got := status["message"].(string); !strings.HasPrefix(got,
		"invalid resource version: resourceVersion: Invalid value:") {
		t.Error(got)
	}
	p.Want(t, 500, "GET", maps+"/a?resourceVersion=abc", "")
	status = p.Want(t, 409, "POST", "/apis/events.k8s.io/v1/namespaces/default/events?dryRun=All", `{"metadata":{"name":"a","generateName":"g-"},
		"eventTime":"2024-01-02T03:04:05.000006Z","regarding":{"kind":"Pod","namespace":"default","name":"p"},"reason":"R","action":"A",
		"type":"Normal","reportingController":"example.com/c","reportingInstance":"i"}`)
	if got := status["message"]; got != `events "a" already exists, the server was not able to generate a unique name for the object` {
		t.Error(got)
	}
}

// kube-apiserver stores built-in kinds as protobuf, so an empty list without omitempty is null
// afterwards, even in kinds that contain raw JSON.
func TestEmptyListsOfClaims(t *testing.T) {
	p := apitest.New(t)
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaim"
	claim := p.Want(t, 201, "POST", claims+"s", `{"metadata":{"name":"a"},"spec":{"devices":{"requests":[]}}}`)
	template := p.Want(t, 201, "POST", claims+"templates",
		`{"metadata":{"name":"a"},"spec":{"spec":{"devices":{"requests":[]}}}}`)
	for _, devices := range []any{
		apitest.At(claim, "spec", "devices"), apitest.At(p.Want(t, 200, "GET", claims+"s/a", ""), "spec", "devices"),
		apitest.At(template, "spec", "spec", "devices"),
		apitest.At(p.Want(t, 200, "GET", claims+"templates/a", ""), "spec", "spec", "devices"),
	} {
		if fmt.Sprint(devices) != "map[requests:<nil>]" && fmt.Sprint(devices) != "map[]" {
			t.Errorf("%v", devices)
		}
	}
}

// A Scale is not a list and not a Deployment, and strategic merge patches use its own type.
func TestScaleKind(t *testing.T) {
	p := apitest.New(t)
	p.Define(t, scaledDefinition)
	const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"replicas":1,
		"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	const deployments, fleets = "/apis/apps/v1/namespaces/default/deployments",
		"/apis/example.com/v1/namespaces/default/fleets"
	p.Want(t, 201, "POST", deployments, deployment)
	p.Want(t, 201, "POST", fleets, `{"apiVersion":"example.com/v1","kind":"Fleet","metadata":{"name":"x"},"spec":{"replicas":1}}`)
	message := func(obj apitest.Object) string { return obj["message"].(string) }
	const list = "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	for path, kind := range map[string]string{deployments: "*autoscaling.Scale", fleets: "*v1.Scale"} {
		if got := message(p.Want(t, 406, "GET", path+"/x/scale", "", list)); !strings.HasSuffix(got,
			"is not a list ("+kind+")") {
			t.Errorf("%s: %s", path, got)
		}
	}
	got := message(p.Want(t, 400, "PUT", deployments+"/x/scale", deployment))
	if got != `Deployment in version "v1" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): unknown conversion` {
		t.Error(got)
	}
	got = message(p.Want(t, 422, "PATCH", deployments+"/x/scale", `{"spec":{"replicas":"x"}}`,
		"Content-Type: application/strategic-merge-patch+json"))
	if got != ` "" is invalid: patch: Invalid value: "map[spec:map[replicas:x]]": unrecognized type: int32` {
		t.Error(got)
	}
	got = message(p.Want(t, 409, "PUT", deployments+"/x/scale",
		`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"x","namespace":"default","uid":"u"}}`))
	if !strings.Contains(got, "StorageError: invalid object, Code: 4, Key: /registry/deployments/default/x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID") {
		t.Error(got)
	}
	// The columns are those of Scale, even for a custom kind, whose Scale is not available in
	// protobuf.
	resp := p.Do(t, "GET", fleets+"/x/scale", "", "Accept: application/vnd.kubernetes.protobuf")
	resp.Body.Close()
	assert.Equalf(t, resp.StatusCode, 406, "protobuf")
	table := p.Want(t, 200, "GET", fleets+"/x/scale", "", tables)
	if got := fmt.Sprint(apitest.At(table["rows"].([]any)[0], "cells")); !strings.HasPrefix(got, "[x 1 0 ") {
		t.Error(got)
	}
}

// An emptied list is null if the field has no omitempty, except in JSON that the client wrote
// itself.
func TestEmptiedLists(t *testing.T) {
	p := apitest.New(t)
	const roles, revisions = "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		"/apis/apps/v1/namespaces/default/controllerrevisions"
	p.Want(t, 201, "POST", roles, `{"metadata":{"name":"r"},"rules":[{"verbs":["get"],"resources":["pods"],"apiGroups":[""]}]}`)
	if rules, ok := p.Want(t, 200, "PATCH", roles+"/r", `{"rules":[]}`, mergePatch)["rules"]; !ok || rules != nil {
		t.Errorf("%v", rules)
	}
	obj := p.Want(t, 201, "POST", revisions, `{"metadata":{"name":"c"},"revision":1,"data":{"list":[],"null":null}}`)
	if list, ok := apitest.At(obj, "data", "list").([]any); !ok || len(list) > 0 {
		t.Errorf("%v", obj["data"])
	}
}

// A strategic merge patch is decoded from the merged map into the Go type: this truncates numbers,
// and errors show the merged object.
func TestStrategicPatchIntoTypes(t *testing.T) {
	p := apitest.New(t)
	const path, strategic = "/apis/apps/v1/namespaces/default/deployments",
		"Content-Type: application/strategic-merge-patch+json"
	p.Want(t, 201, "POST", path, `{"metadata":{"name":"x"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	status := p.Want(t, 422, "PATCH", path+"/x", `{"spec":{"replicas":2147483648}}`, strategic)
	if got := status["message"]; got != `Deployment.apps "x" is invalid: spec.replicas: Invalid value: -2147483648: must be greater than or equal to 0` {
		t.Error(got)
	}
	status = p.Want(t, 422, "PATCH", path+"/x", `{"spec":{"paused":{"a":null}}}`, strategic)
	if got := status["message"]; got != ` "" is invalid: patch: Invalid value: "map[spec:map[paused:map[]]]": unrecognized type: bool` {
		t.Error(got)
	}
	resp := p.Do(t, "PATCH", path+"/x", `{"unknown":1,"spec":{"other":2}}`, strategic)
	resp.Body.Close()
	if got := resp.Header.Values("Warning"); resp.StatusCode != 200 ||
		fmt.Sprint(got) != `[299 - "unknown field \"spec.other\"" 299 - "unknown field \"unknown\""]` {
		t.Errorf("%d %q", resp.StatusCode, got)
	}
}

// Setting an empty list where there was none is a change of the field.
func TestEmptyListIsAChange(t *testing.T) {
	p := apitest.New(t)
	const path, apply = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
		"Content-Type: application/apply-patch+yaml"
	p.Want(t, 201, "PATCH", path+"/x?fieldManager=one",
		`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"x"},"spec":{"podSelector":{},"egress":[{}]}}`, apply)
	p.Want(t, 200, "PATCH", path+"/x?fieldManager=two", `{"spec":{"egress":[{"to":[]}]}}`, mergePatch)
	obj := p.Want(t, 200, "GET", path+"/x", "")
	owners := map[string]bool{}
	for _, entry := range apitest.At(obj, "metadata", "managedFields").([]any) {
		owners[apitest.At(entry, "manager").(string)] = apitest.At(entry, "fieldsV1", "f:spec", "f:egress") != nil
	}
	if !owners["two"] || owners["one"] {
		t.Errorf("%v", owners)
	}
}

// Null bytes in the maps of Secrets and ConfigMaps become empty values.
func TestNullBytes(t *testing.T) {
	p := apitest.New(t)
	obj := p.Want(t, 201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"s"},"data":{"a":null}}`)
	assert.Equal(t, apitest.At(obj, "data", "a"), "")
	obj = p.Want(t, 201, "POST", maps, `{"metadata":{"name":"c"},"binaryData":{"a":null}}`)
	assert.Equal(t, apitest.At(obj, "binaryData", "a"), "")
}

// A table without rows has [], and null for kinds without their own columns.
func TestEmptyTables(t *testing.T) {
	p := apitest.New(t)
	if rows, ok := p.Want(t, 200, "GET", maps, "", tables)["rows"].([]any); !ok || len(rows) > 0 {
		t.Errorf("config maps: %v", rows)
	}
	if rows := p.Want(t, 200, "GET", "/api/v1/namespaces/default/limitranges", "", tables)["rows"]; rows != nil {
		t.Errorf("limit ranges: %v", rows)
	}
}
