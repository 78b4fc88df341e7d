package apitest_test

import (
	"fmt"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
)

// One object in two API groups.
func TestEventsOfBothGroups(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", "/api/v1/namespaces/default/events",
		`{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"a","namespace":"default"},"reason":"Why","message":"because","type":"Normal"}`)
	got := p.Want(t, 200, "GET", "/apis/events.k8s.io/v1/namespaces/default/events/e", "")
	if got["apiVersion"] != "events.k8s.io/v1" || apitest.At(got, "regarding", "name") != "a" ||
		got["note"] != "because" {
		t.Errorf("%v", got)
	}
	s := p.Watch(t, "/apis/events.k8s.io/v1/events?watch=1")
	_, e, _ := s.Next(t)
	assert.Equalf(t, e["apiVersion"], "events.k8s.io/v1", "%v", e)
}

// Versions other than the storage version.
func TestOtherVersion(t *testing.T) {
	p := apitest.New(t)
	const v1, v2 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
		"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	p.Want(t, 201, "POST", v1, `{"metadata":{"name":"h"},"spec":{"maxReplicas":3,"targetCPUUtilizationPercentage":50,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`)
	got := p.Want(t, 200, "GET", v2+"/h", "")
	if got["apiVersion"] != "autoscaling/v2" || fmt.Sprint(got["spec"].(map[string]any)["metrics"]) == "<nil>" {
		t.Errorf("%v", got)
	}
	list := p.Want(t, 200, "GET", v1, "")
	if item := list["items"].([]any)[0]; list["apiVersion"] != "autoscaling/v1" ||
		apitest.At(item, "spec", "targetCPUUtilizationPercentage") != 50.0 {
		t.Errorf("%v", item)
	}
}

// The subresources binding and eviction and the access reviews accept a POST of their own kind.
// Methods that a resource does not have get 405, and a bound Pod can't be bound again.
func TestSubresources(t *testing.T) {
	p := apitest.New(t)
	const pods = "/api/v1/namespaces/default/pods"
	p.Want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
	bound := p.Want(t, 201, "POST", pods+"/a/binding",
		`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}`)
	if bound["kind"] != "Status" || bound["status"] != "Success" || bound["code"] != 201.0 {
		t.Errorf("%v", bound)
	}
	got := p.Want(t, 200, "GET", pods+"/a", "")
	assert.Equalf(t, apitest.At(got, "spec", "nodeName"), "n", "%v", got)
	p.Want(t, 409, "POST", pods+"/a/binding", `{"metadata":{"name":"a"},"target":{"kind":"Node","name":"m"}}`)
	p.Want(t, 400, "POST", pods+"/a/eviction", `{"kind":"Binding","apiVersion":"v1","metadata":{"name":"a"}}`)
	p.Want(t, 201, "POST", pods+"/a/eviction", `{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"a"}}`)
	if got := p.Want(t, 200, "GET", pods+"/a", ""); apitest.At(got, "metadata", "deletionTimestamp") == nil {
		t.Errorf("%v", got)
	}
	p.Want(t, 405, "DELETE", pods+"/a/binding", "")
	p.Want(t, 405, "POST", pods+"/a/status", "{}")

	review := p.Want(t, 201, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		`{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`)
	if review["kind"] != "SelfSubjectAccessReview" || apitest.At(review, "status", "allowed") != true {
		t.Errorf("%v", review)
	}
	p.Want(t, 405, "GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "")
	p.Want(t, 406, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		`{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`,
		"Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
}

// Writes of the object ignore its status, and writes of the status ignore the spec.
func TestStatus(t *testing.T) {
	p := apitest.New(t)
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	p.Want(t, 201, "POST", deployments, `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"replicas":7}}`)
	got := p.Want(t, 200, "PATCH", deployments+"/d/status", `{"spec":{"replicas":9},"status":{"replicas":1}}`,
		mergePatch)
	if apitest.At(got, "spec", "replicas") != 1.0 || apitest.At(got, "status", "replicas") != 1.0 ||
		apitest.At(got, "metadata", "generation") != 1.0 {
		t.Errorf("%v", got)
	}
	fields := apitest.At(got, "metadata", "managedFields").([]any)
	if last := fields[len(fields)-1]; apitest.At(last, "subresource") != "status" ||
		apitest.At(last, "operation") != "Update" {
		t.Errorf("%v", fields)
	}
	applied := p.Want(t, 200, "PATCH", deployments+"/d/status?fieldManager=m",
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"status":{"readyReplicas":1}}`,
		"Content-Type: application/apply-patch+yaml")
	assert.Equalf(t, apitest.At(applied, "status", "readyReplicas"), 1.0, "%v", applied)
	p.Want(t, 404, "PATCH", deployments+"/e/status?fieldManager=m",
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"e"}}`,
		"Content-Type: application/apply-patch+yaml")
}
