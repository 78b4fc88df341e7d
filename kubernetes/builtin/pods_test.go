package builtin

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
)

const podPath = "/api/v1/namespaces/default/pods"

const podManifest = `{metadata: {name: p, labels: {app: a}}, spec: {containers: [{name: a, image: i}]}}`

// Invalid Pods are refused with their status and message. A created Pod is pending and has a
// quality of service, and its node can't be changed by a patch.
func TestPodValidation(t *testing.T) {
	s := serve(t, Config{})
	want(t, "message", s.refused(422, "Invalid", "POST", podPath, `{metadata: {name: p}}`),
		`Pod "p" is invalid: spec.containers: Required value`)
	want(t, "message", s.refused(422, "Invalid", "POST", podPath,
		`{metadata: {name: P_}, spec: {containers: [{name: a, image: i}]}}`),
		`Pod "P_" is invalid: metadata.name: Invalid value: "P_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', `+
			`and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`)
	want(t, "message", s.refused(400, "BadRequest", "POST", podPath+"?fieldValidation=Strict",
		`{metadata: {name: p}, spec: {foo: 1, containers: [{name: a, image: i}]}}`),
		`Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"`)
	created := s.do(201, "POST", podPath, podManifest)
	want(t, "phase", str(created, "status", "phase"), "Pending")
	want(t, "quality of service", str(created, "status", "qosClass"), "BestEffort")
	if msg := s.refused(422, "Invalid", "PATCH", podPath+"/p", `{"spec":{"nodeName":"n"}}`); !strings.HasPrefix(msg,
		`Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than`) {
		t.Errorf("message %s", msg)
	}
}

// A binding sets the node, the annotations and the condition PodScheduled once. The older resource
// "bindings" does the same.
func TestBinding(t *testing.T) {
	s := serve(t, Config{})
	s.do(201, "POST", podPath, podManifest)
	want(t, "message", s.refused(400, "BadRequest", "POST", podPath+"/p/binding",
		`{metadata: {name: q}, target: {name: n1}}`),
		"name in URL does not match name in Binding object")
	done := s.do(201, "POST", podPath+"/p/binding",
		`{apiVersion: v1, kind: Binding, metadata: {name: p, annotations: {x: z}}, target: {kind: Node, name: n1}}`)
	want(t, "status", str(done, "status"), "Success")
	p := s.do(200, "GET", podPath+"/p", "")
	want(t, "node", str(p, "spec", "nodeName"), "n1")
	want(t, "annotation", str(p, "metadata", "annotations", "x"), "z")
	assert.Containsf(t, str(p, "status", "conditions"), `"status":"True","type":"PodScheduled"`, "conditions")
	want(t, "message", s.refused(409, "Conflict", "POST", podPath+"/p/binding",
		`{metadata: {name: p}, target: {name: n2}}`),
		`Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"`)
	s.refused(404, "NotFound", "POST", podPath+"/q/binding", `{metadata: {name: q}, target: {name: n2}}`)

	// The same through the older resource bindings.
	s.do(201, "POST", podPath, strings.Replace(podManifest, "name: p", "name: old", 1))
	s.do(201, "POST", "/api/v1/namespaces/default/bindings", `{metadata: {name: old}, target: {name: n2}}`)
	want(t, "no name", s.refused(400, "BadRequest", "POST", "/api/v1/namespaces/default/bindings",
		`{target: {name: n2}}`), "Name parameter required.")
	want(t, "node", str(s.do(200, "GET", podPath+"/old", ""), "spec", "nodeName"), "n2")
	if msg := s.refused(409, "Conflict", "POST", podPath+"/old/binding",
		`{metadata: {name: old, uid: x}, target: {name: n2}}`); !strings.HasPrefix(msg,
		`Operation cannot be fulfilled on pods "old": StorageError: invalid object, Code: 4, Key: /pods/default/old, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: `) {
		t.Errorf("message %s", msg)
	}
}

// The subresource log validates container and options, streams the log, and returns an error if the
// node is unknown or has no address.
func TestLog(t *testing.T) {
	var asked *corev1.PodLogOptions
	logs := func(_ context.Context, pod *corev1.Pod, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
		asked = opts
		return io.NopCloser(strings.NewReader(pod.Name + " in " + pod.Spec.NodeName + "\n")), nil
	}
	s := serve(t, Config{Logs: logs})
	s.do(201, "POST", podPath, `{metadata: {name: two}, spec: {nodeName: n1, containers: [{name: a, image: i}, {name: b, image: i}], initContainers: [{name: c, image: i}]}}`)
	s.do(201, "POST", podPath, `{metadata: {name: new}, spec: {containers: [{name: a, image: i}]}}`)

	want(t, "no container", s.refused(400, "BadRequest", "GET", podPath+"/two/log", ""),
		"a container name must be specified for pod two, choose one of: [c a b]")
	want(t, "wrong container", s.refused(400, "BadRequest", "GET", podPath+"/two/log?container=x", ""),
		"container x is not valid for pod two")
	want(t, "stream without its feature gate", s.refused(422, "Invalid", "GET",
		podPath+"/two/log?container=a&stream=Stdout", ""),
		`PodLogOptions "two" is invalid: stream: Forbidden: may not be specified`)
	want(t, "bad option", s.refused(422, "Invalid", "GET", podPath+"/two/log?container=a&tailLines=-1", ""),
		`PodLogOptions "two" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`)
	s.refused(404, "NotFound", "GET", podPath+"/none/log", "")
	s.refused(422, "Invalid", "GET", podPath+"/none/log?tailLines=-1", "")
	if w := s.send("GET", podPath+"/new/log", ""); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
		t.Errorf("a pod without a node: %d %s", w.Code, w.Body)
	}
	w := s.send("GET", podPath+"/two/log?container=b&follow=true&sinceSeconds=5&timestamps=true", "")
	if w.Code != 200 || w.Body.String() != "two in n1\n" || w.Header().Get("Content-Type") != "text/plain" ||
		!w.Flushed {
		t.Errorf("%d %v flushed %v: %s", w.Code, w.Header(), w.Flushed, w.Body)
	}
	if asked.Container != "b" || !asked.Follow || *asked.SinceSeconds != 5 || !asked.Timestamps {
		t.Errorf("options %+v", asked)
	}

	s = serve(t, Config{})
	s.do(201, "POST", podPath, `{metadata: {name: p}, spec: {nodeName: n1, containers: [{name: a, image: i}]}}`)
	want(t, "unknown node", s.refused(404, "NotFound", "GET", podPath+"/p/log", ""), `nodes "n1" not found`)
	s.do(201, "POST", "/api/v1/nodes", `{metadata: {name: n1}}`)
	want(t, "no address", s.refused(500, "", "GET", podPath+"/p/log", ""),
		"no preferred addresses found; known addresses: []")
}

// An eviction is refused while the disruption budget does not allow it, and counted when it does. A
// Pod that has ended can be evicted despite the budget.
func TestEviction(t *testing.T) {
	s := serve(t, Config{})
	evict := func(name string) (int, string) {
		w := s.send("POST", podPath+"/"+name+"/eviction", `{apiVersion: policy/v1, kind: Eviction, metadata: {name: `+
			name+`}}`)
		return w.Code, w.Body.String()
	}
	running := func(name string) {
		s.do(201, "POST", podPath, `{metadata: {name: `+name+
			`, labels: {app: a}}, spec: {nodeName: n1, containers: [{name: a, image: i}]}}`)
		s.do(200, "PATCH", podPath+"/"+name+"/status",
			`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	}
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	running("a")
	running("b")
	s.do(201, "POST", budgets, `{metadata: {name: min}, spec: {minAvailable: 1, selector: {matchLabels: {app: a}}}}`)
	if code, body := evict("a"); code != 429 ||
		!strings.Contains(body, "The disruption budget min is still being processed by the server.") {
		t.Errorf("unprocessed budget: %d %s", code, body)
	}
	s.do(200, "PATCH", budgets+"/min/status",
		`{"status":{"observedGeneration":1,"disruptionsAllowed":2,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2}}`)
	// As in Kubernetes, an eviction whose precondition is wrong takes a disruption, but only one.
	want(t, "wrong precondition", s.refused(409, "Conflict", "POST", podPath+"/a/eviction",
		`{apiVersion: policy/v1, kind: Eviction, metadata: {name: a}, deleteOptions: {preconditions: {uid: other}}}`),
		`Operation cannot be fulfilled on Pod "a": the UID in the precondition (other) does not match the UID in record (`+
			str(s.do(200, "GET", podPath+"/a", ""), "metadata", "uid")+
			`). The object might have been deleted and then recreated`)
	if code, body := evict("a"); code != 201 {
		t.Errorf("allowed eviction: %d %s", code, body)
	}
	if p := s.do(200, "GET", podPath+"/a", ""); str(p, "metadata", "deletionTimestamp") == "" ||
		!strings.Contains(str(p, "status", "conditions"), "EvictionByEvictionAPI") {
		t.Errorf("evicted pod: %s", mustJSON(t, p))
	}
	min := s.do(200, "GET", budgets+"/min", "")
	want(t, "disruptions allowed", str(min, "status", "disruptionsAllowed"), "0")
	if str(min, "status", "disruptedPods", "a") == "" {
		t.Errorf("budget: %s", mustJSON(t, min))
	}
	var owned []string
	for _, entry := range min.GetManagedFields() {
		if entry.Manager == "kube-apiserver" {
			owned = append(owned, string(entry.Operation), entry.Subresource, entry.FieldsV1.String())
		}
	}
	want(t, "fields of the eviction", strings.Join(owned, " "), "Update status "+
		`{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"DisruptionAllowed\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:observedGeneration":{},"f:reason":{},"f:status":{},"f:type":{}}},`+
		`"f:disruptedPods":{".":{},"f:a":{}},"f:disruptionsAllowed":{}}}`)
	s.do(200, "PATCH", budgets+"/min/status", `{"status":{"currentHealthy":1}}`)
	if code, body := evict("b"); code != 429 ||
		!strings.Contains(body, "The disruption budget min needs 1 healthy pods and has 1 currently") {
		t.Errorf("eviction over budget: %d %s", code, body)
	}
	s.do(200, "PATCH", podPath+"/b/status", `{"status":{"phase":"Succeeded"}}`)
	if w := s.send("POST", podPath+"/b/eviction", `{apiVersion: policy/v1beta2, kind: Eviction, metadata: {name: b}}`); w.Code != 400 {
		t.Errorf("a version that does not exist: %d %s", w.Code, w.Body)
	}
	if w := s.send("POST", podPath+"/b/eviction?dryRun=All",
		`{apiVersion: policy/v1beta1, kind: Eviction, metadata: {name: b}}`); w.Code != 201 {
		t.Errorf("eviction in policy/v1beta1: %d %s", w.Code, w.Body)
	}
	if code, body := evict("b"); code != 201 {
		t.Errorf("eviction of an ended pod: %d %s", code, body)
	}
}

func TestPrivilegedPods(t *testing.T) {
	s := serve(t, Config{})
	s.do(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/default/pods",
		"{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, securityContext: {privileged: true}}]}}")
}
