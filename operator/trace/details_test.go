package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// slow is a client whose calls take time, which must be that of a synctest bubble.
type slow struct{ client.Client }

func (slow) Get(_ context.Context, key client.Key, into client.Object, _ ...client.GetOption) error {
	time.Sleep(2 * time.Millisecond)
	if key.Name == "absent" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	}
	into.SetResourceVersion("7")
	return nil
}

func (slow) FieldOwner() string { return "test" }

func (slow) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	time.Sleep(3 * time.Millisecond)
	into.(*corev1.PodList).Items = make([]corev1.Pod, 2)
	into.SetResourceVersion("9")
	return nil
}

func (slow) Update(_ context.Context, obj client.Object, _ ...client.WriteOption) error {
	time.Sleep(5 * time.Millisecond)
	obj.SetResourceVersion("8")
	return nil
}

func (slow) Scheme() *runtime.Scheme { return scheme.Scheme }

// run does what a reconcile does.
func run(tracer *trace.Tracer, log *slog.Logger) {
	c := tracer.Client(slow{})
	ctx, span := tracer.Start(context.Background(),
		trace.Record{Controller: "test", Kind: "Pod",
			Request: reconcile.Request{NamespacedName: client.Key{Namespace: "default", Name: "a"}}})
	span.Queued(trace.Queue{Waited: time.Second, Priority: -100, Retries: 2, Ready: 3, Delayed: 4, Running: 1})
	log = span.Log(log)
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "a"
	_ = c.Get(ctx, client.Key{Namespace: "default", Name: "a"}, pod)
	log.Debug("not logged")
	_ = c.List(ctx, &corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels{"app": "web"})
	log.With("size", 3).WithGroup("g").Info("started \"it\"", "level", "high", "msg", "m")
	_ = c.Get(ctx, client.Key{Namespace: "default", Name: "absent"}, &corev1.Pod{}, client.Live)
	_ = c.Update(ctx, pod)
	span.Retried(40 * time.Millisecond)
	span.End(reconcile.Result{}, errors.New("broken"))
	_ = c.Get(ctx, client.Key{Namespace: "default", Name: "a"}, pod) // too late
	log.Info("too late")
}

// A record has what the reconcile read and logged, how long each call took, and its queue.
func TestDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines, logged bytes.Buffer
		run(trace.New(trace.Config{Sink: trace.JSON(&lines)}), slog.New(slog.NewTextHandler(&logged, nil)))
		var got trace.LineRecord
		must(t, json.Unmarshal(lines.Bytes(), &got))
		two := 2
		reads := []trace.LineRead{
			{Verb: "get", Kind: "Pod", Namespace: "default", Name: "a", ResourceVersion: "7", At: "0s",
				Duration: "2ms"},
			{Verb: "list", Kind: "Pod", Namespace: "default", Selector: "app=web", ResourceVersion: "9", Count: &two,
				At: "2ms", Duration: "3ms"},
			{Verb: "get", Kind: "Pod", Namespace: "default", Name: "absent", Live: true, At: "5ms", Duration: "2ms",
				Error: `pods "absent" not found`},
		}
		logs := []trace.LineLog{{At: "5ms", Level: "INFO", Message: `started "it"`,
			Attributes: "size=3 g.level=high g.msg=m"}}
		queue := &trace.LineQueue{Waited: "1s", Priority: -100, Retries: 2, Ready: 3, Delayed: 4, Running: 1}
		if !reflect.DeepEqual(got.Reads, reads) || !reflect.DeepEqual(got.Logs, logs) ||
			!reflect.DeepEqual(got.Queue, queue) || got.RetryAfter != "40ms" {
			t.Errorf("got %s", lines.String())
		}
		if len(got.Writes) != 1 || got.Writes[0].At != "7ms" || got.Writes[0].Duration != "5ms" {
			t.Errorf("writes: %+v", got.Writes)
		}
		if out := logged.String(); !strings.Contains(out, "size=3 g.level=high") ||
			!strings.Contains(out, "too late") || strings.Contains(out, "not logged") {
			t.Errorf("the operator's own log: %s", out)
		}
	})
}

// Without a sink, nothing is kept, and logs are not wrapped.
func TestNoDetails(t *testing.T) {
	for _, tracer := range []*trace.Tracer{nil, trace.New(trace.Config{Loops: func(trace.Loop) {}})} {
		log := slog.New(slog.DiscardHandler)
		_, span := tracer.Start(t.Context(), trace.Record{})
		if tracer.Details() || span.Log(log) != log {
			t.Errorf("%+v: details are recorded", tracer)
		}
	}
}

// A reconcile that reads and logs in a loop makes a record of bounded size.
func TestDetailsAreBounded(t *testing.T) {
	var got trace.Record
	tracer := trace.New(trace.Config{Sink: trace.Func(func(r trace.Record) { got = r })})
	c := tracer.Client(instant{})
	ctx, span := tracer.Start(t.Context(), trace.Record{})
	log := span.Log(slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)))
	for range 2000 {
		_ = c.Get(ctx, client.Key{Name: "a"}, &corev1.Pod{})
		log.Info(strings.Repeat("ä", 4000), "a", strings.Repeat("x", 9000))
	}
	span.End(reconcile.Result{}, nil)
	d := got.Details
	if len(d.Reads)+d.MoreReads != 2000 || len(d.Reads) > 500 || len(d.Logs)+d.MoreLogs != 2000 || len(d.Logs) > 200 ||
		len(d.Logs[0].Message) > 2100 || len(d.Logs[0].Attributes) > 2100 {
		t.Errorf("%d reads and %d more, %d logs and %d more", len(d.Reads), d.MoreReads, len(d.Logs), d.MoreLogs)
	}
}
