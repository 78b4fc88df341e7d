package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

func on(event, kind, name, rv string) trace.Cause {
	return trace.Cause{Event: event, Kind: kind, Key: client.Key{Namespace: "default", Name: name}, ResourceVersion: rv}
}

// Causes of one object merge into the newest. A timer is dropped if there is an event, and a retry
// is kept.
func TestMerge(t *testing.T) {
	retry, after := trace.Cause{Event: trace.Retry}, trace.Cause{Event: trace.After}
	tests := []struct {
		name   string
		causes []trace.Cause
		want   []trace.Cause
	}{
		{"different objects", []trace.Cause{on("add", "Pod", "a", "1"), on("add", "Pod", "b", "2")},
			[]trace.Cause{on("add", "Pod", "a", "1"), on("add", "Pod", "b", "2")}},
		{"newest of an object", []trace.Cause{on("update", "Pod", "a", "1"), on("update", "Pod", "a", "2")},
			[]trace.Cause{on("update", "Pod", "a", "2")}},
		{"new and changed is new", []trace.Cause{on("add", "Pod", "a", "1"), on("update", "Pod", "a", "2")},
			[]trace.Cause{on("add", "Pod", "a", "2")}},
		{"deleted last", []trace.Cause{on("add", "Pod", "a", "1"), on("delete", "Pod", "a", "2")},
			[]trace.Cause{on("delete", "Pod", "a", "2")}},
		{"retry and event", []trace.Cause{retry, on("update", "Pod", "a", "1"), retry},
			[]trace.Cause{retry, on("update", "Pod", "a", "1")}},
		{"timer and event", []trace.Cause{after, on("update", "Pod", "a", "1")},
			[]trace.Cause{on("update", "Pod", "a", "1")}},
		{"event and timer", []trace.Cause{on("update", "Pod", "a", "1"), after},
			[]trace.Cause{on("update", "Pod", "a", "1")}},
		{"timer and timer", []trace.Cause{after, after}, []trace.Cause{after}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c trace.Causes
			for _, each := range tt.causes {
				c = c.Merge(trace.Because(each))
			}
			if got := c.All(); !slices.Equal(got, tt.want) || c.More() != 0 {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A bounded number of causes is kept, and the others are counted.
func TestMergeIsBounded(t *testing.T) {
	var c trace.Causes
	for i := range 100 {
		c = c.Merge(trace.Because(on("add", "Pod", fmt.Sprint(i), "1")))
	}
	if len(c.All())+c.More() != 100 || len(c.All()) > 20 {
		t.Errorf("%d kept, %d more", len(c.All()), c.More())
	}
}

// Merge does not change the causes that it merges.
func TestMergeDoesNotModifySharedCauses(t *testing.T) {
	shared := trace.Because(on("update", "Node", "n", "1"))
	a := shared.Merge(trace.Because(on("update", "Node", "n", "2")))
	if got := shared.All()[0].ResourceVersion; got != "1" || a.All()[0].ResourceVersion != "2" {
		t.Errorf("the shared cause has become %s", got)
	}
}

func newClient(t *testing.T, s *apitest.Server) client.Client {
	t.Helper()
	c, err := client.New(client.Config{REST: s.REST(), FieldOwner: "test"})
	must(t, err)
	return c
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// A record has the writes of its reconcile and whether each changed something. Later causes name
// the reconcile that made them.
func TestWrites(t *testing.T) {
	s := apitest.New()
	var records []trace.Record
	tracer := trace.New(trace.Config{Sink: trace.Func(func(r trace.Record) { records = append(records, r) })})
	c := tracer.Client(newClient(t, s))
	ctx, span := tracer.Start(t.Context(), trace.Record{Controller: "test"})

	cm := configMap("a")
	must(t, c.Create(ctx, cm))
	must(t, c.Update(ctx, cm)) // unchanged
	cm.Data = map[string]string{"a": "b"}
	must(t, c.Update(ctx, cm))
	again := configMap("a")
	again.Data = map[string]string{"a": "b"}
	must(t, c.Apply(ctx, again)) // no resourceVersion, but known
	must(t, c.Patch(ctx, configMap("a"), client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"c"}}`))))
	if err := c.Create(ctx, configMap("a")); err == nil {
		t.Error("created twice")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	must(t, c.Create(ctx, pod))
	must(t, c.Subresource("status").Patch(ctx, pod,
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`))))
	must(t, c.Delete(ctx, cm))
	must(t, c.Create(context.Background(), configMap("other"))) // not in a reconcile
	span.End(reconcile.Result{}, nil)
	must(t, c.Create(ctx, configMap("late")))

	want := []string{
		"create ConfigMap/a 101 true", "update ConfigMap/a 101 false", "update ConfigMap/a 102 true",
		"apply ConfigMap/a 102 false",
		"patch ConfigMap/a 103 true", "create ConfigMap/a  false error", "create Pod/p 104 true",
		"patch status Pod/p 105 true", "delete ConfigMap/a  true",
	}
	var got []string
	for _, w := range records[0].Writes {
		line := strings.TrimSpace(w.Verb+" "+w.Subresource) + fmt.Sprintf(" %s/%s %s %v", w.Kind, w.Key.Name,
			w.ResourceVersion, w.Changed)
		if w.Err != nil {
			line += " error"
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	_, span = tracer.Start(t.Context(), trace.Record{Causes: trace.Because(
		on("update", "ConfigMap", "a", "102"), on("add", "Pod", "p", "104"), on("add", "ConfigMap", "other", "106"),
		trace.Cause{Event: trace.Retry})})
	span.End(reconcile.Result{}, nil)
	var by []uint64
	for _, c := range records[1].Causes.All() {
		by = append(by, c.By)
	}
	assert.Slicef(t, by, []uint64{1, 1, 0, 0}, "causes were made by")
}

// A tracer without a sink is nil and can be used.
func TestNoTracer(t *testing.T) {
	tracer := trace.New(trace.Config{})
	c := newClient(t, apitest.New())
	if tracer != nil || tracer.Client(c) != c {
		t.Error("a tracer without a sink is not nil")
	}
	ctx, span := tracer.Start(t.Context(), trace.Record{})
	span.End(reconcile.Result{}, nil)
	assert.Equalf(t, trace.ID(ctx), 0, "a nil tracer returned an ID")
}

// A record is one line of JSON and can be read back.
func TestJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tracer := trace.New(trace.Config{Sink: trace.JSON(&out)})
		ctx, span := tracer.Start(t.Context(), trace.Record{Controller: "at", Kind: "At",
			Request: reconcile.Request{NamespacedName: client.Key{Namespace: "default", Name: "tea"}},
			Causes:  trace.Because(on("update", "Pod", "tea", "57"), trace.Cause{Event: trace.Retry}),
		})
		_ = tracer.Client(newClient(t, apitest.New())).Create(ctx, configMap("a"))
		time.Sleep(1500 * time.Microsecond)
		span.End(reconcile.Result{RequeueAfter: time.Minute}, errors.New("reconcile failed"))

		want := `{"id":1,"time":"2000-01-01T00:00:00Z","controller":"at","kind":"At","namespace":"default","name":"tea",` +
			`"causes":[{"event":"update","kind":"Pod","namespace":"default","name":"tea","resourceVersion":"57"},{"event":"retry"}],` +
			`"writes":[{"verb":"create","kind":"ConfigMap","namespace":"default","name":"a","resourceVersion":"101","changed":true,"at":"0s","duration":"0s"}],` +
			`"requeueAfter":"1m0s","error":"reconcile failed","duration":"1.5ms"}` + "\n"
		if got := regexp.MustCompile(`"run":"[0-9a-f]{8}",`).ReplaceAllString(out.String(), ""); got != want {
			t.Errorf("got  %swant %s", out.String(), want)
		}
		var line trace.LineRecord
		must(t, json.Unmarshal(out.Bytes(), &line))
		if line.Causes[0].Name != "tea" || !line.Writes[0].Changed {
			t.Errorf("read back as %+v", line)
		}
	})
}

// Open appends to one file or several, and refuses invalid places. Close reports the records that
// are missing.
func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	for range 2 {
		w, err := trace.Open("file:" + path)
		must(t, err)
		_, err = w.Write([]byte("x\n"))
		must(t, err)
		must(t, w.Close())
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "x\nx\n" {
		t.Errorf("got %q, %v", data, err)
	}
	other := filepath.Join(t.TempDir(), "other")
	w, err := trace.Open("file:" + other + ",file:" + path)
	must(t, err)
	_, err = w.Write([]byte("y\n"))
	must(t, errors.Join(err, w.Close()))
	for name, want := range map[string]string{other: "y\n", path: "x\nx\ny\n"} {
		if data, err := os.ReadFile(name); err != nil || string(data) != want {
			t.Errorf("got %q, %v", data, err)
		}
	}
	for _, place := range []string{"fd:x", "file:" + path + ",fd:x", "fd:-1", "file:", "tcp:1", "file:" + t.TempDir()} {
		if _, err := trace.Open(place); err == nil {
			t.Errorf("%q was opened", place)
		}
	}
	// Close returns the errors that JSON ignores.
	if _, err := os.Stat("/dev/full"); err == nil {
		w, err := trace.Open("file:/dev/full,file:" + path)
		must(t, err)
		tracer := trace.JSON(w)
		for range 2 {
			tracer.Reconciled(trace.Record{Kind: "Pod"})
		}
		if err := w.Close(); !errors.Is(err, syscall.ENOSPC) ||
			!strings.Contains(err.Error(), "2 records are missing") {
			t.Errorf("closing a trace on a full device returned %v", err)
		}
		if data, err := os.ReadFile(path); err != nil || strings.Count(string(data), `"kind":"Pod"`) != 2 {
			t.Errorf("the other trace has %q, %v", data, err)
		}
	}
	if w, err := trace.Open(""); w != nil || err != nil {
		t.Errorf("opening an empty value returned %v, %v", w, err)
	}
}

var must = require.NoError
