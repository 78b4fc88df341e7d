package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/console/internal/cluster"
	"kelson.dev/console/internal/web"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// eventJSON returns an Event that was last seen a number of seconds after the epoch.
func eventJSON(t *testing.T, uid, seconds int) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"metadata":      map[string]any{"uid": fmt.Sprint(uid)},
		"lastTimestamp": time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339), "message": fmt.Sprint(seconds),
	})
	require.NoError(t, err)
	return data
}

// The newest Events are kept. An Event that happens again replaces itself, and no other Event.
func TestNewestEventsAreKept(t *testing.T) {
	v := &Inventory{changed: web.NewSignal(), events: map[string]Event{}, objects: map[string]map[string]*Object{},
		synced: map[string]bool{}, failures: map[string]*web.Error{}}
	kind := cluster.Kind{Version: "v1", Resource: "events", Kind: "Event"}
	receiver := v.receiver(context.Background(), kind, "")
	var items []json.RawMessage
	for i := range maxEvents + 10 {
		items = append(items, eventJSON(t, i, i))
	}
	list, err := json.Marshal(map[string]any{"items": items})
	require.NoError(t, err)
	require.NoError(t, receiver.Page(list, true, true))
	check := func(kept, oldest, newest int) {
		t.Helper()
		events := v.Snapshot().Events
		if len(events) != kept || events[0].Message != fmt.Sprint(newest) ||
			events[kept-1].Message != fmt.Sprint(oldest) {
			t.Errorf("%d Events, %s to %s; want %d, %d to %d", len(events), events[len(events)-1].Message,
				events[0].Message, kept, oldest, newest)
		}
		all, _ := v.Events()
		assert.Equalf(t, len(all), kept, "Events returns")
	}
	check(maxEvents, 10, maxEvents+9)
	event := func(uid, seconds int) {
		t.Helper()
		require.NoError(t, receiver.Event(watch.Modified, eventJSON(t, uid, seconds)))
	}
	event(maxEvents+9, maxEvents+20)
	check(maxEvents, 10, maxEvents+20)
	for i := range maxEvents + 1 { // more than are kept between two reads
		event(maxEvents+100+i, maxEvents+100+i)
	}
	check(maxEvents, maxEvents+101, 2*maxEvents+100)
}

// A container that crashes has the exit code and the last line of its termination message; a
// namespace has the finalizers of its spec.
func TestSummaries(t *testing.T) {
	pod, err := summarize(cluster.Kind{Version: "v1", Resource: "pods", Kind: "Pod"}, []byte(`{"metadata":{"name":"p"},"status":{"containerStatuses":[
		{"name":"app","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 40s"}},
		 "lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","message":"first\nlast\n"}}}]}}`))
	require.NoError(t, err)
	if want := "app crashes: OOMKilled, exit code 137: last, restarted 4 times"; len(pod.Containers) != 1 ||
		pod.Containers[0].Text != want {
		t.Errorf("%+v, want %q", pod.Containers, want)
	}
	namespace, err := summarize(cluster.Kind{Version: "v1", Resource: "namespaces", Kind: "Namespace"},
		[]byte(`{"metadata":{"name":"n"},"spec":{"finalizers":["kubernetes"]}}`))
	require.NoError(t, err)
	if len(namespace.Finalizers) != 1 || namespace.Finalizers[0] != "kubernetes" {
		t.Errorf("finalizers %q", namespace.Finalizers)
	}
}
