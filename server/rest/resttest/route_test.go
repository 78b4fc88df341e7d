package resttest_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"kelson.dev/server/rest/resttest"
)

// API-01, API-08: what kube-apiserver's router says before a verb is asked.
func TestRouterAnswers(t *testing.T) {
	p := resttest.New(t)
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
	if resp := p.Do(t, "GET", "/apis/nothing/v1/things", ""); resp.StatusCode != 404 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("unknown group: %d %v", resp.StatusCode, resp.Header)
	}
}

// API-06: the items of a list of a built-in kind don't repeat kind and apiVersion.
func TestItemsAreUntyped(t *testing.T) {
	p := resttest.New(t)
	for _, name := range []string{"a", "b"} {
		p.Want(t, 201, "POST", maps, configMap(name, ""))
	}
	for _, media := range []string{"application/json", "application/cbor"} {
		resp := p.Do(t, "GET", maps, "", "Accept: "+media)
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        any              `json:"metadata"`
			Items           []map[string]any `json:"items"`
		}
		unmarshal := cbor.Unmarshal
		if media == "application/json" {
			unmarshal = json.Unmarshal
		}
		if err := unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
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
