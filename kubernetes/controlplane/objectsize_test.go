package controlplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// growDefinition has a default of 100 KB for the elements of a list, and a version whose storage
// form has it too.
var growDefinition = fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"grows.x.io"},
	"spec":{"group":"x.io","scope":"Namespaced","names":{"plural":"grows","kind":"Grow"},"versions":[
	{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
		"properties":{"list":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string","default":%q}}}}}}}}}},
	{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
		"properties":{"list":{"type":"array","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}}}]}}`, strings.Repeat("x", 100<<10))

// Requests whose result exceeds the limit of an object get kube-apiserver's answer to etcd's error,
// take little memory, and store nothing.
func TestObjectsThatAreTooLarge(t *testing.T) {
	plane := start(t, controlplane.Config{})
	client := &http.Client{Transport: plane.Transport()}
	do := func(method, path, media, body string) (code int, answer string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://plane"+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", media)
		resp, err := client.Do(req)
		require.NoError(t, err)
		raw := require.Body(t, resp)
		return resp.StatusCode, string(raw)
	}
	const (
		grows       = "/apis/x.io/v1/namespaces/default/grows"
		deployments = "/apis/apps/v1/namespaces/default/deployments"
		patchMedia  = "application/json-patch+json"
		mergeMedia  = "application/merge-patch+json"
		applyMedia  = "application/apply-patch+yaml"
		strategic   = "application/strategic-merge-patch+json"
	)
	grow := func(version, name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"x.io/%s","kind":"Grow","metadata":{"name":%q},"spec":%s}`, version, name,
			spec)
	}
	deployment := func(name, args string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","args":[%s]}]}}}}`, name, args)
	}
	large, half := `"`+strings.Repeat("x", 1_600_000)+`"`, `"`+strings.Repeat("x", 800_000)+`"`
	elements := "[" + strings.Repeat("{},", 10_422) + "{}]"
	for _, made := range [][2]string{
		{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", growDefinition},
		{grows, grow("v1", "there", `{"half":`+half+`}`)}, {deployments, deployment("there", half)},
	} {
		if code, answer := do("POST", made[0], "application/json", made[1]); code != 201 {
			t.Fatalf("%d %.300s", code, answer)
		}
	}
	_, before := do("GET", grows, "", "")
	_, revision, _ := strings.Cut(before[strings.Index(before, `"there"`):], `"resourceVersion":"`)
	revision, _, _ = strings.Cut(revision, `"`)
	_, beforeToo := do("GET", deployments, "", "")
	copies := `[{"op":"copy","from":"/spec/half","path":"/spec/a"},{"op":"copy","from":"/spec/half","path":"/spec/b"}]`
	const refused = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"etcdserver: request is too large","code":500}`

	for _, test := range []struct{ name, method, path, media, body string }{
		{"an object", "POST", grows, "application/json", grow("v1", "x", `{"a":`+large+`}`)},
		{"an object of a built-in kind", "POST", deployments, "application/json", deployment("x", large)},
		{"an update", "PUT", grows + "/there", "application/json",
			strings.Replace(grow("v1", "there", `{"a":`+large+`}`), `"name"`, `"resourceVersion":"`+revision+`","name"`,
				1)},
		{"an update of a built-in kind", "PUT", deployments + "/there", "application/json", deployment("there", large)},
		{"an apply", "PATCH", grows + "/y?fieldManager=m", applyMedia, grow("v1", "y", `{"a":`+large+`}`)},
		{"an apply to an object", "PATCH", deployments + "/there?fieldManager=m&force=true", applyMedia,
			deployment("there", large)},
		{"a merge patch", "PATCH", grows + "/there", mergeMedia, `{"spec":{"a":` + half + `}}`},
		{"a merge patch of a built-in kind", "PATCH", deployments + "/there", mergeMedia,
			`{"metadata":{"managedFields":[]},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i","args":[` + large + `]}]}}}}`},
		{"a strategic merge patch", "PATCH", deployments + "/there", strategic,
			`{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"i","args":[` + half + `]}]}}}}`},
		{"a JSON patch that copies", "PATCH", grows + "/there", patchMedia, copies},
		{"a JSON patch that adds", "PATCH", deployments + "/there", patchMedia,
			`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":` + half + `}]`},
		{"defaults", "POST", grows, "application/json", grow("v1", "x", `{"list":`+elements+`}`)},
		{"defaults after conversion", "POST", strings.Replace(grows, "v1", "v2", 1), "application/json",
			grow("v2", "x", `{"list":`+elements+`}`)},
		{"defaults after a merge patch", "PATCH", grows + "/there", mergeMedia, `{"spec":{"list":` + elements + `}}`},
		{"defaults after an apply", "PATCH", grows + "/there?fieldManager=m", applyMedia,
			grow("v1", "there", `{"list":`+elements+`}`)},
		{"defaults after a JSON patch", "PATCH", grows + "/there", patchMedia,
			`[{"op":"add","path":"/spec/list","value":` + elements + `}]`},
		{"defaults in YAML", "POST", grows, "application/yaml", grow("v1", "x", `{"list":`+elements+`}`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			code, answer := do(test.method, test.path, test.media, test.body)
			runtime.ReadMemStats(&after)
			if code != 500 || strings.TrimSpace(answer) != refused {
				t.Errorf("%d %.400s", code, answer)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 300 {
				t.Errorf("%d MiB were allocated", took)
			}
		})
	}
	if _, after := do("GET", grows, "", ""); contents(t, before) != contents(t, after) {
		t.Error("an object has changed")
	}
	if _, after := do("GET", deployments, "", ""); contents(t, beforeToo) != contents(t, after) {
		t.Error("a Deployment has changed")
	}
}

// contents returns the items of a list.
func contents(t *testing.T, list string) string {
	t.Helper()
	var all struct{ Items []any }
	require.NoError(t, json.Unmarshal([]byte(list), &all))
	return fmt.Sprint(all.Items)
}

// Like kube-apiserver, the server stores an object without its managedFields if it is too large
// only because of them.
func TestManagedFieldsThatAreTooLarge(t *testing.T) {
	plane := start(t, controlplane.Config{})
	client := &http.Client{Transport: plane.Transport()}
	var members strings.Builder
	for i := range 14_000 {
		fmt.Fprintf(&members, `%s"%s%d":""`, map[bool]string{true: ","}[i > 0], strings.Repeat("k", 60), i)
	}
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"wide"},"data":{` + members.String() + `}}`
	for _, test := range []struct {
		method, path, media string
		code                int
	}{
		{"PATCH", "/api/v1/namespaces/default/configmaps/wide?fieldManager=m", "application/apply-patch+yaml", 500},
		{"POST", "/api/v1/namespaces/default/configmaps", "application/json", 201},
		{"PUT", "/api/v1/namespaces/default/configmaps/wide", "application/json", 200},
		{"PATCH", "/api/v1/namespaces/default/configmaps/wide", "application/merge-patch+json", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, "http://plane"+test.path,
			strings.NewReader(strings.Replace(body, `0":""`, `0":"`+test.method+`"`, 1)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", test.media)
		resp, err := client.Do(req)
		require.NoError(t, err)
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != test.code || strings.Contains(string(answer), "managedFields") {
			t.Errorf("%s: %d %.300s, %v", test.method, resp.StatusCode, answer, err)
		}
	}
}
