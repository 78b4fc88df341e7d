package apitest_test

import (
	"testing"

	"kelson.dev/kubernetes/apitest"
)

// Requests on the old paths of watches are authorized as watches, so none of these paths leads to a
// subresource, a review or a write. Requests on a subresource without a name are authorized as
// lists.
func TestWatchPathsOnlyWatch(t *testing.T) {
	p := apitest.New(t)
	const inDefault = "/api/v1/watch/namespaces/default"
	p.Want(t, 201, "POST", "/api/v1/namespaces/default/pods",
		`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	for _, c := range []struct {
		code               int
		method, path, body string
	}{
		{404, "POST", inDefault + "/pods/p/eviction", `{"metadata":{"name":"p"}}`},
		{404, "POST", inDefault + "/pods/p/binding", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`},
		{404, "POST", inDefault + "/bindings", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`},
		{404, "GET", inDefault + "/pods/p/log", ""},
		{404, "GET", inDefault + "/pods/p/exec?command=id&stdout=true", ""},
		{404, "POST", inDefault + "/pods/p/exec?command=id&stdout=true", ""},
		{404, "GET", inDefault + "/services/s/proxy", ""},
		{404, "GET", inDefault + "/pods/p/status", ""},
		{404, "PUT", inDefault + "/pods/p/status", `{}`},
		{400, "GET", "/api/v1/namespaces/default/pods//exec?fieldSelector=metadata.name%3Dp&command=id&stdout=true",
			""},
		{400, "GET", "/api/v1/namespaces/default/pods//status", ""},
		{404, "POST", "/apis/authorization.k8s.io/v1/watch/subjectaccessreviews", `{"spec":{"user":"u"}}`},
		{404, "POST", "/apis/authentication.k8s.io/v1/watch/tokenreviews", `{"spec":{"token":"t"}}`},
		{405, "POST", inDefault + "/pods", `{}`},
		{405, "PUT", inDefault + "/pods/p", `{}`},
		{405, "DELETE", inDefault + "/pods/p", ""},
		{405, "DELETE", inDefault + "/pods", ""},
	} {
		p.Want(t, c.code, c.method, c.path, c.body)
	}
	if pod := p.Want(t, 200, "GET", "/api/v1/namespaces/default/pods/p", ""); apitest.At(pod, "spec",
		"nodeName") != nil {
		t.Errorf("a request on the path of a watch bound the pod: %v", pod)
	}
}
