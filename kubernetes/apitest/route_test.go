package apitest_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

// Errors of kube-apiserver's router, before any verb runs.
func TestRouterAnswers(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", maps, configMap("a", ""))
	const available = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor"
	for _, c := range []struct {
		method, path, header string
		code                 int
		message              string
	}{
		{"GET", maps + "/a", "Accept: application/xml", 406, available},
		{"GET", maps + "/a", "Accept: application/*", 406, available},
		{"GET", maps, "Accept: text/html", 406,
			available + ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch, application/cbor-seq"},
		{"PATCH", maps + "/a", "Content-Type: application/json", 415, "415: Unsupported Media Type"},
		{"GET", maps + "/a/nothing", "", 404, "the server could not find the requested resource"},
		{"GET", "/api/v1/nothings", "", 404, "the server could not find the requested resource"},
		{"GET", "/apis/apps/v9/deployments", "", 404, "the server could not find the requested resource"},
		{"PUT", maps, "", 405, "the server does not allow this method on the requested resource"},
		{"POST", "/api/v1/watch/namespaces/default/configmaps", "", 405,
			"the server does not allow this method on the requested resource"},
		{"DELETE", "/api/v1/watch/namespaces/default/configmaps/a", "", 405,
			"the server does not allow this method on the requested resource"},
		{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews/a", "", 404,
			"the server could not find the requested resource"},
		{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "Accept: application/xml", 406, available},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{c.header}
		}
		status := p.Want(t, c.code, c.method, c.path, "{}", headers...)
		if status["message"] != c.message {
			t.Errorf("%s %s %s: %q", c.method, c.path, c.header, status["message"])
		}
		if details, ok := status["details"].(map[string]any); !ok || len(details) > 0 {
			t.Errorf("%s %s %s: details %v", c.method, c.path, c.header, details)
		}
	}
	p.Want(t, 200, "GET", maps+"/a", "", "Accept: application/xml, */*;q=0.1")
	if resp := p.Do(t, "GET", "/apis/nothing/v1/things", ""); resp.StatusCode != 404 ||
		!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("unknown group: %d %v", resp.StatusCode, resp.Header)
	}
	if resp := p.Do(t, "GET", "/api/v1/watch", ""); resp.StatusCode != 500 ||
		!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("a watch of nothing: %d %v", resp.StatusCode, resp.Header)
	}
}

// The items of a list of a built-in kind have no kind and apiVersion.
func TestItemsAreUntyped(t *testing.T) {
	p := apitest.New(t)
	for _, name := range []string{"a", "b"} {
		p.Want(t, 201, "POST", maps, configMap(name, ""))
	}
	for _, media := range []string{"application/json", "application/cbor"} {
		resp := p.Do(t, "GET", maps, "", "Accept: "+media)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		var list struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        any              `json:"metadata"`
			Items           []map[string]any `json:"items"`
		}
		unmarshal := cbor.Unmarshal
		if media == "application/json" {
			unmarshal = json.Unmarshal
		}
		require.NoError(t, unmarshal(body, &list))
		if list.Kind != "ConfigMapList" || len(list.Items) != 2 {
			t.Fatalf("%s: %s", media, body)
		}
		for _, item := range list.Items {
			if item["kind"] != nil || item["apiVersion"] != nil || item["metadata"] == nil {
				t.Errorf("%s: %v", media, item)
			}
		}
	}
}

// Requests for custom kinds are dispatched by verb, without a router.
func TestRoutingOfCustomKinds(t *testing.T) {
	p := apitest.New(t)
	p.Define(t, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"toys.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"toys","kind":"Toy"},"versions":[{"name":"v1","served":true,"storage":true,"deprecated":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	const toys, toy = "/apis/example.com/v1/namespaces/default/toys",
		`{"apiVersion":"example.com/v1","kind":"Toy","metadata":{"name":"a"}}`
	p.Want(t, 201, "POST", toys, toy)
	for _, c := range []struct {
		method, path string
		code         int
		message      string
	}{
		{"POST", toys + "/a", 409, `toys.example.com "a" already exists`},
		{"PUT", toys, 400, "name must be provided"},
		{"OPTIONS", toys + "/a", 405, ` is not supported on resources of kind "toys.example.com"`},
		{"GET", toys + "/a/nothing", 404, `toys.example.com "a" not found`},
	} {
		if status := p.Want(t, c.code, c.method, c.path, toy); status["message"] != c.message {
			t.Errorf("%s %s: %v", c.method, c.path, status["message"])
		}
	}
	for path, warned := range map[string]bool{toys + "/a/nothing": true, "/apis/example.com/v1/toys/a": false} {
		resp := p.Do(t, "GET", path, "")
		if resp.StatusCode != 404 || (resp.Header.Get("Warning") != "") != warned {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
	}
	if list := p.Want(t, 200, "GET", toys, ""); apitest.At(list, "metadata", "continue") != "" ||
		apitest.At(list["items"].([]any)[0], "kind") != "Toy" {
		t.Errorf("%v", list)
	}
}

// Kubernetes' responses and errors for unusual requests.
func TestUnusualWrites(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", maps, configMap("a", ""))
	// A strategic merge patch can't change the type.
	if got := p.Want(t, 200, "PATCH", maps+"/a", `{"kind":"Nothing","data":{"k":"v"}}`,
		"Content-Type: application/strategic-merge-patch+json"); got["kind"] != "ConfigMap" ||
		apitest.At(got, "data", "k") != "v" {
		t.Errorf("%v", got)
	}
	for _, c := range []struct{ method, path, body, header, message string }{
		{"PATCH", maps + "/a", `{}`, "Content-Type: application/json-patch+json",
			"error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"},
		{"PATCH", maps + "/a?fieldManager=m", "a: b: c", "Content-Type: application/apply-patch+yaml",
			"error encoding patch: yaml: mapping values are not allowed in this context"},
	} {
		if status := p.Want(t, 400, c.method, c.path, c.body, c.header); status["message"] != c.message {
			t.Errorf("%v", status["message"])
		}
	}
	status := p.Want(t, 409, "DELETE", maps+"/a?ignoreStoreReadErrorWithClusterBreakingPotential=true", "")
	if want := `Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, Key: /registry/configmaps/default/a, ResourceVersion: 0, ` +
		"AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"; status["message"] != want {
		t.Errorf("%v", status["message"])
	}
	list := p.Want(t, 200, "GET", maps+"?labelSelector=a%3Dnothing", "",
		"Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	if items, ok := list["items"]; !ok || items != nil {
		t.Errorf("no items: %v", list)
	}
	// finalize supports only PUT.
	p.Want(t, 201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"n"}}`)
	p.Want(t, 405, "GET", "/api/v1/namespaces/n/finalize", "")
	if gone := p.Want(t, 200, "DELETE", "/api/v1/namespaces/n", ""); apitest.At(gone, "metadata",
		"deletionTimestamp") == nil || apitest.At(gone, "metadata", "deletionGracePeriodSeconds") != nil {
		t.Errorf("%v", gone)
	}
}

// The bookmark after the initial events is an object of the kind, with all fields that have no
// omitempty.
func TestBookmarkIsTyped(t *testing.T) {
	p := apitest.New(t)
	s := p.Watch(t, "/api/v1/pods?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")
	_, e, _ := s.Next(t)
	spec, _ := e["spec"].(map[string]any)
	if containers, ok := spec["containers"]; e["kind"] != "Pod" || !ok || containers != nil || e["status"] == nil ||
		apitest.At(e, "metadata", "annotations", metav1.InitialEventsAnnotationKey) != "true" {
		t.Errorf("%v", e)
	}
}

// managedFields include the fields of ephemeralcontainers that the pod's strategy resets.
func TestEphemeralContainersManagedFields(t *testing.T) {
	p := apitest.New(t)
	const pods = "/api/v1/namespaces/default/pods"
	pod := p.Want(t, 201, "POST", pods, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	pod["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
	body, err := json.Marshal(pod)
	require.NoError(t, err)
	got := p.Want(t, 200, "PUT", pods+"/a/ephemeralcontainers", string(body))
	if fields := apitest.At(got, "metadata", "managedFields").([]any); len(fields) != 2 ||
		apitest.At(got, "metadata", "labels") != nil {
		t.Errorf("%v", got["metadata"])
	}
	p.Want(t, 406, "GET", pods+"/a/ephemeralcontainers", "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
}
