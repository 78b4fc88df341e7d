package internal_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/internal/histogram"
	"kelson.dev/apiserver/metrics"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func gather(t *testing.T, registry *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]*dto.MetricFamily{}
	for _, f := range families {
		all[f.GetName()] = f
	}
	return all
}

func writeMetrics(t *testing.T, s *store.Store) {
	t.Helper()
	op := store.Op{Key: store.Key{Resource: "things.example.com", Name: "a"}, Data: []byte(`{"metadata":{}}`)}
	_, err := s.Commit(t.Context(), op)
	require.NoError(t, err)
}

// A store on disk has histograms of syncs, appends and checkpoints, and counts objects by resource.
// It has no metrics of etcd.
func TestDisk(t *testing.T) {
	backend, err := disk.OpenWith(t.TempDir(), disk.Options{CheckpointBytes: 1})
	require.NoError(t, err)
	s, err := store.Open(store.Config{Backend: backend})
	require.NoError(t, err)
	writeMetrics(t, s)
	if err := s.Close(); err != nil { // the checkpoint has ended
		t.Fatal(err)
	}
	got := gather(t, metrics.New(s))
	for _, name := range []string{"kelson_disk_sync_duration_seconds", "kelson_store_append_duration_seconds",
		"kelson_store_checkpoint_duration_seconds"} {
		h := got[name].GetMetric()
		if len(h) != 1 || h[0].GetHistogram().GetSampleCount() != 1 || h[0].GetHistogram().GetSampleSum() <= 0 ||
			len(h[0].GetHistogram().GetBucket()) != 1 {
			t.Errorf("%s: %v", name, h)
		}
	}
	objects := got["apiserver_resource_objects"].GetMetric()
	if len(objects) != 1 || objects[0].GetGauge().GetValue() != 1 ||
		!strings.Contains(objects[0].String(), `"example.com"`) || !strings.Contains(objects[0].String(), `"things"`) {
		t.Errorf("%v", objects)
	}
	if got["kelson_disk_log_bytes"] == nil || got["go_goroutines"] == nil ||
		got["etcd_request_duration_seconds"] != nil {
		t.Errorf("%v", got)
	}
}

// remoteLog is a log on another machine.
type remoteLog struct {
	store.Shared
	requests histogram.Histogram
}

func (f *remoteLog) Stats() store.BackendStats {
	return store.BackendStats{Requests: map[string]histogram.Counts{"txn": f.requests.Read()}}
}

// A store over a shared log has the durations of etcd's requests and of commits, but no metrics of
// a disk.
func TestShared(t *testing.T) {
	log := &remoteLog{Shared: storetest.NewLog().Shared(false)}
	log.requests.Observe(time.Second)
	s := storetest.New(t, store.Config{Shared: log})
	writeMetrics(t, s)
	got := gather(t, metrics.New(s))
	if h := got["etcd_request_duration_seconds"].GetMetric(); len(h) != 1 || h[0].GetHistogram().GetSampleSum() != 1 ||
		h[0].GetLabel()[0].GetValue() != "txn" {
		t.Errorf("%v", h)
	}
	if got["kelson_disk_log_bytes"] != nil ||
		got["kelson_store_commit_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleCount() != 1 {
		t.Errorf("%v", got)
	}
}

// plugin is an admission chain that rejects objects in validation.
type plugin struct{ *admission.Handler }

var errRejected = errors.New("no")

func (plugin) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}
func (plugin) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return errRejected
}

// The steps of admission are measured by operation and result, and watch events are counted. A nil
// *Verbs can be used.
func TestVerbs(t *testing.T) {
	registry := prometheus.NewRegistry()
	v := metrics.NewVerbs(registry)
	chain := v.Admission(plugin{admission.NewHandler(admission.Create)})
	a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "",
		admission.Create, nil, false, nil)
	if err := chain.(admission.MutationInterface).Admit(t.Context(), a, nil); err != nil ||
		!chain.Handles(admission.Create) || chain.Handles(admission.Delete) {
		t.Error(err)
	}
	assert.ErrorIs(t, chain.(admission.ValidationInterface).Validate(t.Context(), a, nil), errRejected)
	v.Watch(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Sent(3000)
	v.Decoded(time.Now())
	got := gather(t, registry)
	var steps []string
	for _, m := range got["apiserver_admission_step_admission_duration_seconds"].GetMetric() {
		text := ""
		for _, l := range m.GetLabel() {
			text += l.GetName() + "=" + l.GetValue() + " "
		}
		steps = append(steps, text)
	}
	if strings.Join(steps, "; ") != "operation=CREATE rejected=false type=admit ; operation=CREATE rejected=true type=validate " {
		t.Errorf("%q", steps)
	}
	assert.Equal(t, got["apiserver_watch_events_total"].GetMetric()[0].GetCounter().GetValue(), 1)
	var none *metrics.Verbs
	none.Decoded(time.Now())
	none.Watch(schema.GroupVersionResource{}).Sent(1)
}
