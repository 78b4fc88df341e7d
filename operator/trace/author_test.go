package trace_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// during calls a function when the response to an apply has arrived at the client, before its
// caller has it.
type during struct {
	client.Client
	call func()
}

func (d *during) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	err := d.Client.Apply(ctx, obj, opts...)
	d.call()
	return err
}

// A write that changes nothing returns a state that another manager made. It is not recorded as a
// change, and not as the author of that state, whenever the event with it arrives. A state that the
// write made itself is.
func TestWriteThatChangesNothing(t *testing.T) {
	key := client.Key{Namespace: "default", Name: "a"}
	for _, test := range []struct {
		name          string
		manager       string // of the event
		own           bool   // the apply changes the object
		before, while bool   // when the event arrives, instead of after the response
		changed       bool
	}{
		{"the event is known before the request", "other", false, true, false, false},
		{"its manager is not known", "", false, true, false, false},
		{"the event arrives during the request", "other", false, false, true, false},
		{"the event arrives after the response", "other", false, false, false, false},
		{"an own change, whose event arrives first", "test", true, false, true, true},
		{"an own change, whose event arrives later", "test", true, false, false, true},
		{"an own change, by an unknown manager", "", true, false, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := apitest.New()
			var records []trace.Record
			tracer := trace.New(trace.Config{Sink: trace.Func(func(r trace.Record) { records = append(records, r) })})
			plain := newClient(t, s)
			must(t, plain.Create(t.Context(), configMap("a")))
			must(t, plain.Patch(t.Context(), configMap("a"),
				client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"b"}}`))))
			version := "102"
			obj := configMap("a")
			obj.Data = map[string]string{"a": "b"}
			if test.own {
				version, obj.Data = "103", map[string]string{"a": "c"}
			}
			deliver := func() { tracer.Delivered("", "ConfigMap", key, version, test.manager) }
			hook := &during{Client: plain, call: func() {}}
			if test.while {
				hook.call = deliver
			}
			if test.before {
				deliver()
			}
			ctx, span := tracer.Start(t.Context(), trace.Record{Controller: "test"})
			must(t, tracer.Client(hook).Apply(ctx, obj))
			if !test.before && !test.while {
				deliver()
			}
			span.End(reconcile.Result{}, nil)

			_, span = tracer.Start(t.Context(),
				trace.Record{Causes: trace.Because(on("update", "ConfigMap", "a", version))})
			span.End(reconcile.Result{}, nil)
			w := records[0].Writes[0]
			if by := records[1].Causes.All()[0].By; w.ResourceVersion != version || w.Changed != test.changed ||
				(by == 1) != test.changed {
				t.Errorf("the write resulted in %s, changed %v; reconcile %d is its author", w.ResourceVersion,
					w.Changed, by)
			}
		})
	}
}

// answers answers applies with managedFields.
type answers struct {
	client.Client
	entries []metav1.ManagedFieldsEntry
}

func (a answers) Apply(_ context.Context, obj client.Object, _ ...client.WriteOption) error {
	obj.SetResourceVersion("9")
	obj.SetManagedFields(a.entries)
	return nil
}

// The managedFields in the response show that an apply changed nothing, before any event arrives:
// the newest entry is another manager's. An apply in the same second may be a change.
func TestApplyOfAnEarlierSecond(t *testing.T) {
	entry := func(manager string, second int64) metav1.ManagedFieldsEntry {
		at := metav1.Unix(second, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Time: &at}
	}
	for _, test := range []struct {
		name    string
		entries []metav1.ManagedFieldsEntry
		changed bool
	}{
		{"another manager is newer", []metav1.ManagedFieldsEntry{entry("test", 1), entry("other", 2)}, false},
		{"the own entry is the newest", []metav1.ManagedFieldsEntry{entry("test", 3), entry("other", 2)}, true},
		{"the same second", []metav1.ManagedFieldsEntry{entry("test", 2), entry("other", 2)}, true},
		{"no own fields are left", []metav1.ManagedFieldsEntry{entry("other", 2)}, true},
		{"no managedFields", nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var records []trace.Record
			tracer := trace.New(trace.Config{Sink: trace.Func(func(r trace.Record) { records = append(records, r) })})
			c := tracer.Client(answers{newClient(t, apitest.New()), test.entries})
			ctx, span := tracer.Start(t.Context(), trace.Record{Controller: "test"})
			must(t, c.Apply(ctx, configMap("a"), client.FieldOwner("test")))
			span.End(reconcile.Result{}, nil)
			w := records[0].Writes[0]
			assert.Equalf(t, w.Changed, test.changed, "recorded as %+v", w)
		})
	}
}

// dryRuns answers applies as a server does in a dry run.
type dryRuns struct{ client.Client }

func (d dryRuns) Apply(_ context.Context, obj client.Object, _ ...client.WriteOption) error {
	obj.SetResourceVersion("9")
	return nil
}

// A dry run changes nothing.
func TestDryRunIsNoChange(t *testing.T) {
	var records []trace.Record
	tracer := trace.New(trace.Config{Sink: trace.Func(func(r trace.Record) { records = append(records, r) })})
	ctx, span := tracer.Start(t.Context(), trace.Record{Controller: "test"})
	must(t, tracer.Client(dryRuns{newClient(t, apitest.New())}).Apply(ctx, configMap("a"),
		client.DryRunAll))
	span.End(reconcile.Result{}, nil)
	if w := records[0].Writes[0]; w.Changed {
		t.Errorf("a dry run is recorded as %+v", w)
	}
}
