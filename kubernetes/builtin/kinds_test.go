package builtin

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
)

// A deleted Namespace is terminating until its finalizer is removed through the subresource
// finalize.
func TestNamespaceDeletion(t *testing.T) {
	s := serve(t, Config{})
	const path = "/api/v1/namespaces/ns"
	created := s.do(201, "POST", "/api/v1/namespaces", `{metadata: {name: ns}}`)
	want(t, "finalizers", str(created, "spec", "finalizers"), `["kubernetes"]`)
	want(t, "label", str(created, "metadata", "labels", "kubernetes.io/metadata.name"), "ns")
	s.do(200, "DELETE", path, "")
	ns := s.do(200, "GET", path, "")
	want(t, "phase", str(ns, "status", "phase"), "Terminating")
	if str(ns, "metadata", "deletionTimestamp") == "" {
		t.Error("no deletionTimestamp")
	}
	s.do(200, "PUT", path+"/finalize", `{apiVersion: v1, kind: Namespace, metadata: {name: ns}, spec: {finalizers: []}}`)
	s.do(404, "GET", path, "")
}

// The subresource scale shows and changes the replicas of a workload, with validation and an entry
// in managedFields.
func TestScale(t *testing.T) {
	s := serve(t, Config{})
	const path = "/apis/apps/v1/namespaces/default/deployments"
	s.do(201, "POST", path, `{metadata: {name: d}, spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)
	view := s.do(200, "GET", path+"/d/scale", "")
	want(t, "kind", str(view, "apiVersion")+" "+str(view, "kind"), "autoscaling/v1 Scale")
	want(t, "replicas", str(view, "spec", "replicas"), "2")
	want(t, "selector", str(view, "status", "selector"), "a=b")
	s.do(200, "PUT", path+"/d/scale", `{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: d}, spec: {replicas: 5}}`)
	d := s.do(200, "GET", path+"/d", "")
	want(t, "replicas", str(d, "spec", "replicas"), "5")
	want(t, "generation", str(d, "metadata", "generation"), "2")
	if managed := str(d, "metadata", "managedFields"); !strings.Contains(managed,
		`"fieldsV1":{"f:spec":{"f:replicas":{}}}`) || !strings.Contains(managed, `"subresource":"scale"`) {
		t.Errorf("managedFields %s", managed)
	}
	want(t, "message", s.refused(422, "Invalid", "PUT", path+"/d/scale",
		`{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: d}, spec: {replicas: -1}}`),
		`Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`)
	s.do(201, "POST", "/api/v1/namespaces/default/replicationcontrollers",
		`{metadata: {name: r}, spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)
	want(t, "replicas", str(s.do(200, "PATCH", "/api/v1/namespaces/default/replicationcontrollers/r/scale",
		`{"spec":{"replicas":3}}`), "spec", "replicas"), "3")
}

// managedFields record the owner of each field since the first write. Status has separate entries.
func TestManagedFields(t *testing.T) {
	s := serve(t, Config{})
	const path = "/api/v1/namespaces/default/configmaps"
	created := s.do(201, "POST", path+"?fieldManager=me", `{metadata: {name: c}, data: {a: b}}`)
	managed := str(created, "metadata", "managedFields")
	if !strings.Contains(managed, `{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:a":{}}},"manager":"me","operation":"Update"`) {
		t.Errorf("managedFields %s", managed)
	}
	msg := s.refused(409, "Conflict", "APPLY", path+"/c",
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: c}}`)
	if !strings.HasPrefix(msg, `Apply failed with 1 conflict: conflict with "me" using v1`) {
		t.Errorf("message %s", msg)
	}
	merged := s.do(200, "APPLY", path+"/c", `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {c: d}}`)
	want(t, "data", str(merged, "data"), `{"a":"b","c":"d"}`)

	// Server-side apply merges lists in a workload by key. An apply to the main resource ignores
	// status.
	d := s.do(201, "APPLY", "/apis/apps/v1/namespaces/default/deployments/d", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
status: {replicas: 3}
`)
	managed = str(d, "metadata", "managedFields")
	if !strings.Contains(managed, `k:{\"name\":\"c\"}`) || strings.Contains(managed, "f:status") ||
		str(d, "status", "replicas") != "" {
		t.Errorf("deployment %s", mustJSON(t, d))
	}
	s.do(200, "PATCH", "/apis/apps/v1/namespaces/default/deployments/d/status", `{"status":{"observedGeneration":1}}`)
	managed = str(s.do(200, "GET", "/apis/apps/v1/namespaces/default/deployments/d", ""), "metadata", "managedFields")
	if !strings.Contains(managed, `"fieldsV1":{"f:status":{"f:observedGeneration":{}}}`) ||
		!strings.Contains(managed, `"subresource":"status"`) {
		t.Errorf("managedFields %s", managed)
	}
}

// All versions of a kind show the same stored object.
func TestAutoscalerVersions(t *testing.T) {
	s := serve(t, Config{})
	s.do(201, "POST", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
		`{metadata: {name: h}, spec: {maxReplicas: 3, targetCPUUtilizationPercentage: 50, scaleTargetRef: {kind: Deployment, name: d, apiVersion: apps/v1}}}`)
	h := s.do(200, "GET", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h", "")
	want(t, "metrics", str(h, "spec", "metrics"),
		`[{"resource":{"name":"cpu","target":{"averageUtilization":50,"type":"Utilization"}},"type":"Resource"}]`)
	h = s.do(200, "PATCH", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/h",
		`{"spec":{"maxReplicas":4}}`)
	want(t, "version", str(h, "apiVersion"), "autoscaling/v1")
	want(t, "replicas", str(h, "spec", "maxReplicas"), "4")
}

// An Event is the same object in the core group and in events.k8s.io: created in one, it is read,
// listed, patched and deleted in the other.
func TestEventsOfBothGroups(t *testing.T) {
	s := serve(t, Config{})
	s.do(201, "POST", "/api/v1/namespaces/default/events",
		`{metadata: {name: e, namespace: default}, involvedObject: {kind: Pod, name: p, namespace: default}, message: hi, reason: R, type: Normal}`)
	e := s.do(200, "GET", "/apis/events.k8s.io/v1/namespaces/default/events/e", "")
	want(t, "version", str(e, "apiVersion"), "events.k8s.io/v1")
	want(t, "note", str(e, "note"), "hi")
	list := s.do(200, "GET", "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=reason=R", "")
	want(t, "list", str(list, "apiVersion")+" "+str(list, "kind"), "events.k8s.io/v1 EventList")
	assert.Containsf(t, str(list, "items"), `"note":"hi"`, "items")
	s.do(200, "PATCH", "/apis/events.k8s.io/v1/namespaces/default/events/e", `{"metadata":{"labels":{"a":"b"}}}`)
	want(t, "label", str(s.do(200, "GET", "/api/v1/namespaces/default/events/e", ""), "metadata", "labels", "a"), "b")
	s.do(200, "DELETE", "/apis/events.k8s.io/v1/namespaces/default/events/e", "")
	s.do(404, "GET", "/api/v1/namespaces/default/events/e", "")
}

func TestReviews(t *testing.T) {
	s := serve(t, Config{})
	me := s.do(201, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`)
	want(t, "user", str(me, "status", "userInfo", "username"), "admin")
	review := s.do(201, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		`{spec: {resourceAttributes: {verb: get, resource: pods}}}`)
	want(t, "allowed", str(review, "status", "allowed"), "true")
	want(t, "kind", str(review, "apiVersion")+" "+str(review, "kind"),
		"authorization.k8s.io/v1 SelfSubjectAccessReview")
	s.refused(422, "Invalid", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
		`{spec: {resourceAttributes: {verb: get, resource: pods}}}`)
	s.do(201, "POST", "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
		`{metadata: {namespace: default}, spec: {user: u, resourceAttributes: {namespace: default, verb: get, resource: pods}}}`)
	s.do(201, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", `{spec: {namespace: default}}`)
	token := s.do(201, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{spec: {token: t}}`)
	want(t, "authenticated", str(token, "status", "authenticated"), "")
}

// Responses carry kube-apiserver's warnings.
func TestWarnings(t *testing.T) {
	s := serve(t, Config{})
	warned := func(method, target, text string) {
		t.Helper()
		if got := s.send(method, target, "").Header().Get("Warning"); !strings.Contains(got, text) ||
			text == "" && got != "" {
			t.Errorf("%s %s: warning %q, want %q", method, target, got, text)
		}
	}
	warned("GET", "/api/v1/namespaces/default/endpoints",
		"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
	warned("GET", "/api/v1/namespaces/default/endpoints/missing", "v1 Endpoints is deprecated")
	warned("PUT", "/api/v1/namespaces/default/endpoints", "") // no such route exists
	warned("GET", "/apis/discovery.k8s.io/v1/endpointslices", "")
	warned("DELETE", "/apis/batch/v1/namespaces/default/jobs/missing", "child pods are preserved by default")
	warned("DELETE", "/apis/batch/v1/namespaces/default/jobs", "child pods are preserved by default")
	warned("DELETE", "/apis/batch/v1/namespaces/default/jobs?propagationPolicy=Background", "")
	warned("DELETE", "/api/v1/namespaces/default/configmaps/missing", "")
}

// A claim is stored with the defaults of its status, although its strategy clears the status.
func TestStoredDefaults(t *testing.T) {
	s := serve(t, Config{})
	const claim = `{metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`
	const claims = "/api/v1/namespaces/default/persistentvolumeclaims"
	for _, query := range []string{"?dryRun=All", ""} {
		want(t, "phase", str(s.do(201, "POST", claims+query, claim), "status", "phase"), "Pending")
	}
	want(t, "phase", str(s.do(200, "GET", claims+"/c", ""), "status", "phase"), "Pending")
}

// Empty fields are stored with their defaults.
func TestAllocatableOfNodes(t *testing.T) {
	s := serve(t, Config{})
	const node = `{metadata: {name: one}, status: {capacity: {cpu: "4"}, allocatable: {}}}`
	for _, query := range []string{"?dryRun=All", ""} {
		want(t, "allocatable", str(s.do(201, "POST", "/api/v1/nodes"+query, node), "status", "allocatable"),
			`{"cpu":"4"}`)
	}
	want(t, "allocatable", str(s.do(200, "GET", "/api/v1/nodes/one", ""), "status", "allocatable"), `{"cpu":"4"}`)
	s.do(200, "PATCH", "/api/v1/nodes/one/status", `{"status":{"allocatable":{"cpu":"3"}}}`)
	want(t, "allocatable", str(s.do(200, "GET", "/api/v1/nodes/one", ""), "status", "allocatable"), `{"cpu":"3"}`)
}

// Reviews record managedFields like other objects.
func TestManagedReviews(t *testing.T) {
	s := serve(t, Config{})
	review := s.do(201, "POST", "/apis/authentication.k8s.io/v1/tokenreviews?fieldManager=me", `{spec: {token: t}}`)
	if text := str(review, "metadata"); !strings.Contains(text, `"manager":"me"`) ||
		!strings.Contains(text, `"f:spec"`) {
		t.Errorf("metadata: %s", text)
	}
	answer := s.send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{metadata: {ownerReferences: [
		{apiVersion: v1, kind: A, name: a, uid: u}, {apiVersion: v1, kind: A, name: a, uid: u}]}, spec: {token: t}}`)
	assert.Containsf(t, answer.Header().Get("Warning"), "duplicate entries", "warning")
}

// The template generation of a DaemonSet is a field of the hub, and not also an annotation.
func TestDaemonSetMetadata(t *testing.T) {
	s := serve(t, Config{})
	const sets = "/apis/apps/v1/namespaces/default/daemonsets"
	s.do(201, "POST", sets, `{metadata: {name: d, annotations: {a: b}}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
		spec: {containers: [{name: c, image: i}]}}}}`)
	if text := s.send("GET", sets+"/d", "").Body.String(); !strings.Contains(text,
		"deprecated.daemonset.template.generation") {
		t.Errorf("object: %s", text)
	}
	text := s.send("GET", sets+"/d", "", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").Body.String()
	if strings.Contains(text, `"deprecated.daemonset`) || !strings.Contains(text, `"annotations":{"a":"b"}`) {
		t.Errorf("metadata: %s", text)
	}
}

// The table of a scale has its own columns, and rows contain the Scale object.
func TestScaleTable(t *testing.T) {
	s := serve(t, Config{})
	const sets, table = "/apis/apps/v1/namespaces/default/replicasets", "application/json;as=Table;v=v1;g=meta.k8s.io"
	s.do(201, "POST", sets, `{metadata: {name: r}, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
		spec: {containers: [{name: c, image: i}]}}}}`)
	text := s.send("GET", sets+"/r/scale", "", table).Body.String()
	for _, part := range []string{`"name":"Desired"`, `"cells":["r",3,0,`, `"kind":"PartialObjectMetadata"`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	if text = s.send("GET", sets+"/r/scale?includeObject=None", "", table).Body.String(); strings.Contains(text,
		"PartialObject") {
		t.Errorf("unexpected objects: %s", text)
	}
}

// As in Kubernetes, the status subresource of some kinds cannot be rendered as a table.
func TestStatusWithoutTable(t *testing.T) {
	s := serve(t, Config{})
	const path, table = "/apis/resource.k8s.io/v1/devicetaintrules", "application/json;as=Table;v=v1;g=meta.k8s.io"
	s.do(201, "POST", path, `{metadata: {name: d}, spec: {deviceSelector: {driver: gpu.example.com}, taint: {key: example.com/broken, effect: NoSchedule}}}`)
	for view, code := range map[string]int{"": 200, "/status": 406} {
		got := s.send("GET", path+"/d"+view, "", table)
		assert.Equalf(t, got.Code, code, "table of d%s", view)
	}
	if got := s.send("GET", path+"/d/status", "", table+",application/json"); got.Code != 200 ||
		!strings.Contains(got.Body.String(), `"kind":"DeviceTaintRule"`) {
		t.Errorf("status as JSON: %d %s", got.Code, got.Body)
	}
}
