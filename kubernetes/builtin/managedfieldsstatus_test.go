package builtin_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/require"
)

// TestFirstReportOfPodTakesFastPath reports the status of a pod that another client created, with
// conditions whose lastProbeTime is null.
func TestFirstReportOfPodTakesFastPath(t *testing.T) {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	body := func(status string) []byte {
		return []byte(`{"apiVersion":"v1","kind":"Pod",` + usualMetadata + `,"spec":` + usualPod + `,"status":` + status + `}`)
	}
	c := &comparison{T: t, codec: codecOf(t, kind), kind: kind, sub: ""}
	c.begin()
	created, _, err := c.codec.Decode(body(`{"phase":"Pending","qosClass":"BestEffort"}`), "application/json", "v1")
	require.NoError(t, err)
	created = c.library.UpdateNoErrors(c.empty(), created, "client")
	c.sub = "status"
	c.begin()
	next, _, err := c.codec.Decode(body(`{"phase":"Pending","qosClass":"BestEffort","observedGeneration":1,"startTime":"2026-01-01T00:00:00Z",
"hostIP":"10.0.0.1","hostIPs":[{"ip":"10.0.0.1"}],"podIP":"10.1.0.1","podIPs":[{"ip":"10.1.0.1"}],
"conditions":[{"type":"PodScheduled","status":"True","observedGeneration":1,"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"},
 {"type":"Ready","status":"False","reason":"ContainersNotReady","message":"m","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"}],
"containerStatuses":[{"name":"web","image":"example.com/web:v1","imageID":"","restartCount":0,"started":false,
 "ready":false,"state":{"waiting":{"reason":"ContainerCreating"}},"lastState":{}}]}`), "application/json", "v1")
	require.NoError(t, err)
	want := c.text(c.library.UpdateNoErrors(created.DeepCopyObject(), next.DeepCopyObject(), "kubelet"))
	c.asked = false
	if got := c.text(c.manager.UpdateNoErrors(created.DeepCopyObject(), next, "kubelet")); got != want || c.asked {
		t.Errorf("library used: %v\n%s\nnot\n%s", c.asked, got, want)
	}
}

// TestReportsOfPodsTakeFastPath reports the status of a pod as a kubelet does: its container waits,
// and then runs. The StructManager must not need the library for the second report, and must
// compute the same owners. The container statuses are a list with one owner.
func TestReportsOfPodsTakeFastPath(t *testing.T) {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	pod := func(phase, ready, state, transition string) []byte {
		return []byte(`{"apiVersion":"v1","kind":"Pod",` + usualMetadata + `,"spec":` + usualPod + `,
"status":{"phase":"` + phase + `","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],
"conditions":[
 {"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"},
 {"type":"Ready","status":"` + ready + `","lastProbeTime":null,"lastTransitionTime":"` + transition + `"}],
"containerStatuses":[{"name":"web","image":"example.com/web:v1","imageID":"","restartCount":0,
 "ready":` + strings.ToLower(ready) + `,"state":` + state + `,"lastState":{}}]}}`)
	}
	c := &comparison{T: t, codec: codecOf(t, kind), kind: kind, sub: "status"}
	c.begin()
	const creating = `{"waiting":{"reason":"ContainerCreating"}}`
	const before, after = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
	waiting, _, err := c.codec.Decode(pod("Pending", "False", creating, before), "application/json", "v1")
	require.NoError(t, err)
	first := c.library.UpdateNoErrors(c.empty(), waiting, "kubelet")
	for name, body := range map[string][]byte{
		"runs":         pod("Running", "True", `{"running":{"startedAt":"2026-01-01T00:00:01Z"}}`, after),
		"still waits":  pod("Pending", "False", `{"waiting":{"reason":"Other"}}`, before),
		"is unchanged": pod("Pending", "False", creating, before),
	} {
		t.Run(name, func(t *testing.T) {
			next, _, err := c.codec.Decode(body, "application/json", "v1")
			require.NoError(t, err)
			want := c.text(c.library.UpdateNoErrors(first.DeepCopyObject(), next.DeepCopyObject(), "kubelet"))
			c.asked = false
			got := c.text(c.manager.UpdateNoErrors(first.DeepCopyObject(), next, "kubelet"))
			if got != want || c.asked {
				t.Errorf("library used: %v\n%s\nnot\n%s", c.asked, got, want)
			}
		})
	}
}
