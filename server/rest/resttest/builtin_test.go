package resttest_test

import (
	"fmt"
	"testing"

	"kelson.dev/server/rest/resttest"
)

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`

// API-01, API-04
func TestPodLife(t *testing.T) {
	p := resttest.New(t)
	const pods = "/api/v1/namespaces/default/pods"
	created := p.Want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
	if resttest.At(created, "spec", "restartPolicy") != "Always" || resttest.At(created, "status", "phase") != "Pending" {
		t.Errorf("not defaulted: %v", created)
	}
	got := p.Want(t, 200, "GET", pods+"/a", "")
	if resttest.At(got, "metadata", "uid") != resttest.At(created, "metadata", "uid") {
		t.Errorf("got %v", got)
	}
	patched := p.Want(t, 200, "PATCH", pods+"/a", `{"metadata":{"labels":{"tier":"front"}}}`, "Content-Type: application/strategic-merge-patch+json")
	if resttest.At(patched, "metadata", "labels", "tier") != "front" || resttest.At(patched, "metadata", "labels", "app") != "web" {
		t.Errorf("patched %v", patched)
	}
	p.Want(t, 200, "PATCH", pods+"/a/status", `{"status":{"phase":"Running"}}`, "Content-Type: application/merge-patch+json")
	list := p.Want(t, 200, "GET", pods+"?fieldSelector=status.phase=Running", "")
	if n := len(list["items"].([]any)); n != 1 {
		t.Errorf("%d running", n)
	}
	// A pod on no node is deleted at once.
	gone := p.Want(t, 200, "DELETE", pods+"/a", "")
	if gone["kind"] != "Pod" {
		t.Errorf("deleted: %v", gone)
	}
	p.Want(t, 404, "GET", pods+"/a", "")
}

func TestApply(t *testing.T) {
	p := resttest.New(t)
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
	if resttest.At(created, "metadata", "resourceVersion") != resttest.At(same, "metadata", "resourceVersion") {
		t.Errorf("applying the same again wrote: %v, %v", resttest.At(created, "metadata"), resttest.At(same, "metadata"))
	}
	conflict := p.Want(t, 409, "PATCH", deploy+"?fieldManager=two", fmt.Sprintf(yaml, 3), apply)
	if resttest.At(conflict, "reason") != "Conflict" {
		t.Errorf("conflict: %v", conflict)
	}
	t.Log(resttest.At(conflict, "message"))
	forced := p.Want(t, 200, "PATCH", deploy+"?fieldManager=two&force=true", fmt.Sprintf(yaml, 3), apply)
	if resttest.At(forced, "spec", "replicas") != 3.0 {
		t.Errorf("forced: %v", forced)
	}
	scale := p.Want(t, 200, "GET", deploy+"/scale", "")
	if scale["kind"] != "Scale" || resttest.At(scale, "spec", "replicas") != 3.0 {
		t.Errorf("scale: %v", scale)
	}
	scale = p.Want(t, 200, "PATCH", deploy+"/scale", `{"spec":{"replicas":5}}`, "Content-Type: application/merge-patch+json")
	if resttest.At(scale, "spec", "replicas") != 5.0 {
		t.Errorf("scaled: %v", scale)
	}
	scaled := p.Want(t, 200, "GET", deploy, "")
	if resttest.At(scaled, "spec", "replicas") != 5.0 || resttest.At(scaled, "metadata", "generation") != 3.0 {
		t.Errorf("scaled: %v", resttest.At(scaled, "metadata"))
	}
}

// API-08
func TestTable(t *testing.T) {
	p := resttest.New(t)
	const pods = "/api/v1/namespaces/default/pods"
	p.Want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
	table := p.Want(t, 200, "GET", pods, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	if table["kind"] != "Table" || len(table["rows"].([]any)) != 1 {
		t.Errorf("%v", table)
	}
	t.Log(table)
}
