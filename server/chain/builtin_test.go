package chain_test

import (
	"fmt"
	"testing"
)

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`

// API-01, API-04
func TestPodLife(t *testing.T) {
	p := newPlane(t)
	const pods = "/api/v1/namespaces/default/pods"
	created := p.want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
	if at(created, "spec", "restartPolicy") != "Always" || at(created, "status", "phase") != "Pending" {
		t.Errorf("not defaulted: %v", created)
	}
	got := p.want(t, 200, "GET", pods+"/a", "")
	if at(got, "metadata", "uid") != at(created, "metadata", "uid") {
		t.Errorf("got %v", got)
	}
	patched := p.want(t, 200, "PATCH", pods+"/a", `{"metadata":{"labels":{"tier":"front"}}}`, "Content-Type: application/strategic-merge-patch+json")
	if at(patched, "metadata", "labels", "tier") != "front" || at(patched, "metadata", "labels", "app") != "web" {
		t.Errorf("patched %v", patched)
	}
	p.want(t, 200, "PATCH", pods+"/a/status", `{"status":{"phase":"Running"}}`, "Content-Type: application/merge-patch+json")
	list := p.want(t, 200, "GET", pods+"?fieldSelector=status.phase=Running", "")
	if n := len(list["items"].([]any)); n != 1 {
		t.Errorf("%d running", n)
	}
	// A pod on no node is deleted at once.
	gone := p.want(t, 200, "DELETE", pods+"/a", "")
	if gone["kind"] != "Pod" {
		t.Errorf("deleted: %v", gone)
	}
	p.want(t, 404, "GET", pods+"/a", "")
}

func TestApply(t *testing.T) {
	p := newPlane(t)
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
	created := p.want(t, 201, "PATCH", deploy+"?fieldManager=one", fmt.Sprintf(yaml, 2), apply)
	same := p.want(t, 200, "PATCH", deploy+"?fieldManager=one", fmt.Sprintf(yaml, 2), apply)
	if at(created, "metadata", "resourceVersion") != at(same, "metadata", "resourceVersion") {
		t.Errorf("applying the same again wrote: %v, %v", at(created, "metadata"), at(same, "metadata"))
	}
	conflict := p.want(t, 409, "PATCH", deploy+"?fieldManager=two", fmt.Sprintf(yaml, 3), apply)
	if at(conflict, "reason") != "Conflict" {
		t.Errorf("conflict: %v", conflict)
	}
	t.Log(at(conflict, "message"))
	forced := p.want(t, 200, "PATCH", deploy+"?fieldManager=two&force=true", fmt.Sprintf(yaml, 3), apply)
	if at(forced, "spec", "replicas") != 3.0 {
		t.Errorf("forced: %v", forced)
	}
	scale := p.want(t, 200, "GET", deploy+"/scale", "")
	if scale["kind"] != "Scale" || at(scale, "spec", "replicas") != 3.0 {
		t.Errorf("scale: %v", scale)
	}
	scale = p.want(t, 200, "PATCH", deploy+"/scale", `{"spec":{"replicas":5}}`, "Content-Type: application/merge-patch+json")
	if at(scale, "spec", "replicas") != 5.0 {
		t.Errorf("scaled: %v", scale)
	}
	scaled := p.want(t, 200, "GET", deploy, "")
	if at(scaled, "spec", "replicas") != 5.0 || at(scaled, "metadata", "generation") != 3.0 {
		t.Errorf("scaled: %v", at(scaled, "metadata"))
	}
}

// API-08
func TestTable(t *testing.T) {
	p := newPlane(t)
	const pods = "/api/v1/namespaces/default/pods"
	p.want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
	table := p.want(t, 200, "GET", pods, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	if table["kind"] != "Table" || len(table["rows"].([]any)) != 1 {
		t.Errorf("%v", table)
	}
	t.Log(table)
}
