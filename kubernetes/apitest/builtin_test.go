package apitest_test

import (
	"fmt"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
)

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`

// A Pod is created with defaults, patched, found by a field selector and deleted.
func TestPod(t *testing.T) {
	p := apitest.New(t)
	const pods = "/api/v1/namespaces/default/pods"
	created := p.Want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
	if apitest.At(created, "spec", "restartPolicy") != "Always" || apitest.At(created, "status", "phase") != "Pending" {
		t.Errorf("not defaulted: %v", created)
	}
	got := p.Want(t, 200, "GET", pods+"/a", "")
	if apitest.At(got, "metadata", "uid") != apitest.At(created, "metadata", "uid") {
		t.Errorf("got %v", got)
	}
	patched := p.Want(t, 200, "PATCH", pods+"/a", `{"metadata":{"labels":{"tier":"front"}}}`,
		"Content-Type: application/strategic-merge-patch+json")
	if apitest.At(patched, "metadata", "labels", "tier") != "front" ||
		apitest.At(patched, "metadata", "labels", "app") != "web" {
		t.Errorf("patched %v", patched)
	}
	p.Want(t, 200, "PATCH", pods+"/a/status", `{"status":{"phase":"Running"}}`,
		"Content-Type: application/merge-patch+json")
	list := p.Want(t, 200, "GET", pods+"?fieldSelector=status.phase=Running", "")
	assert.Equalf(t, len(list["items"].([]any)), 1, "running")
	// A pod without a node is deleted immediately.
	gone := p.Want(t, 200, "DELETE", pods+"/a", "")
	assert.Equalf(t, gone["kind"], "Pod", "deleted: %v", gone)
	p.Want(t, 404, "GET", pods+"/a", "")
}

func TestApply(t *testing.T) {
	p := apitest.New(t)
	const deploy = "/apis/apps/v1/namespaces/default/deployments/web"
	const yaml = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
`
	const apply = "Content-Type: application/apply-patch+yaml"
	created := p.Want(t, 201, "PATCH", deploy+"?fieldManager=one", fmt.Sprintf(yaml, 2), apply)
	same := p.Want(t, 200, "PATCH", deploy+"?fieldManager=one", fmt.Sprintf(yaml, 2), apply)
	if apitest.At(created, "metadata", "resourceVersion") != apitest.At(same, "metadata", "resourceVersion") {
		t.Errorf("the second, identical apply changed the object: %v, %v", apitest.At(created, "metadata"),
			apitest.At(same, "metadata"))
	}
	conflict := p.Want(t, 409, "PATCH", deploy+"?fieldManager=two", fmt.Sprintf(yaml, 3), apply)
	assert.Equalf(t, apitest.At(conflict, "reason"), "Conflict", "conflict: %v", conflict)
	t.Log(apitest.At(conflict, "message"))
	forced := p.Want(t, 200, "PATCH", deploy+"?fieldManager=two&force=true", fmt.Sprintf(yaml, 3), apply)
	assert.Equalf(t, apitest.At(forced, "spec", "replicas"), 3.0, "forced: %v", forced)
	scale := p.Want(t, 200, "GET", deploy+"/scale", "")
	if scale["kind"] != "Scale" || apitest.At(scale, "spec", "replicas") != 3.0 {
		t.Errorf("scale: %v", scale)
	}
	scale = p.Want(t, 200, "PATCH", deploy+"/scale", `{"spec":{"replicas":5}}`,
		"Content-Type: application/merge-patch+json")
	assert.Equalf(t, apitest.At(scale, "spec", "replicas"), 5.0, "scaled: %v", scale)
	scaled := p.Want(t, 200, "GET", deploy, "")
	if apitest.At(scaled, "spec", "replicas") != 5.0 || apitest.At(scaled, "metadata", "generation") != 3.0 {
		t.Errorf("scaled: %v", apitest.At(scaled, "metadata"))
	}
}

// A list is returned as a table, with one row for each object.
func TestTable(t *testing.T) {
	p := apitest.New(t)
	const pods = "/api/v1/namespaces/default/pods"
	p.Want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
	table := p.Want(t, 200, "GET", pods, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	if table["kind"] != "Table" || len(table["rows"].([]any)) != 1 {
		t.Errorf("%v", table)
	}
	t.Log(table)
}
