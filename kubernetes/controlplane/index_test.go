package controlplane_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"kelson.dev/kubernetes/apitest"
	"kelson.dev/kubernetes/controlplane"
)

// / lists all served paths, including those of a definition as soon as it exists.
func TestIndex(t *testing.T) {
	cp := start(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	p := &apitest.Plane{Client: &http.Client{Transport: cp.Transport()}}
	lists := func(path string) bool {
		t.Helper()
		paths, _ := apitest.At(p.Want(t, 200, "GET", "/", ""), "paths").([]any)
		return slices.Contains(paths, any(path))
	}
	for _, path := range []string{
		"/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/", "/apis/apps", "/apis/apps/v1",
		"/apis/autoscaling/v1", "/healthz",
		"/healthz/ping", "/livez/store", "/metrics", "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/readyz/store",
		"/version",
	} {
		if !lists(path) {
			t.Errorf("missing %s", path)
		}
		if path == "/apis/" {
			continue // the same document
		}
		if resp := p.Do(t, "GET", path, ""); resp.StatusCode != 200 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	const paths = "/apis/stable.example.com/v1"
	if lists(paths) {
		t.Error("the group is listed before its definition exists")
	}
	p.Want(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"crontabs.stable.example.com"},"spec":{
		"group":"stable.example.com","scope":"Namespaced","names":{"plural":"crontabs","kind":"CronTab"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	if !lists(paths) || !lists("/apis/stable.example.com") {
		t.Error("the group of a definition is not listed")
	}
	if fmt.Sprint(p.Want(t, 200, "GET", paths, "")["kind"]) != "APIResourceList" {
		t.Error("a listed path is not served")
	}
}
