package flowcontrol_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

const (
	schemas = "flowschemas.flowcontrol.apiserver.k8s.io"
	levels  = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
)

// put stores an object or, if deleted is set, deletes it.
func put(t testing.TB, st *store.Store, resource string, obj metav1.Object, deleted bool) {
	t.Helper()
	op := store.Op{Key: store.Key{Resource: resource, Name: obj.GetName()}, Expect: store.AnyRevision}
	if !deleted {
		data, err := json.Marshal(obj)
		require.NoError(t, err)
		op.Data = data
	}
	_, err := st.Commit(t.Context(), op)
	require.NoError(t, err)
}

// newStore returns a store with the objects that a control plane creates at its start.
func newStore(t testing.TB) *store.Store {
	t.Helper()
	st, err := store.Open(store.Config{})
	require.NoError(t, err)
	for _, list := range [][]*flowcontrolv1.PriorityLevelConfiguration{bootstrap.MandatoryPriorityLevelConfigurations,
		bootstrap.SuggestedPriorityLevelConfigurations} {
		for _, pl := range list {
			pl := pl.DeepCopy()
			pl.UID = types.UID("uid-of-" + pl.Name)
			put(t, st, levels, pl, false)
		}
	}
	for _, list := range [][]*flowcontrolv1.FlowSchema{bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas} {
		for _, fs := range list {
			put(t, st, schemas, fs, false)
		}
	}
	return st
}

// ask returns a request of a user.
func ask(ctx context.Context, name, verb string, groups ...string) (*http.Request, *request.RequestInfo, user.Info) {
	info := &request.RequestInfo{
		IsResourceRequest: true, Path: "/api/v1/namespaces/x/configmaps/c", Verb: verb, APIPrefix: "api",
		APIVersion: "v1", Namespace: "x", Resource: "configmaps", Name: "c",
	}
	u := &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}
	ctx = request.WithUser(request.WithRequestInfo(ctx, info), u)
	return httptest.NewRequest("GET", "/api/v1/namespaces/x/configmaps/c", nil).WithContext(ctx), info, u
}

// begin requests a ticket.
func begin(t testing.TB, c *flowcontrol.Controller, name string, groups ...string) (*flowcontrol.Ticket, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticket := new(flowcontrol.Ticket)
	req, info, u := ask(ctx, name, "get", groups...)
	return ticket, c.Begin(ticket, req, info, u)
}

// reason returns why a request was rejected.
func reason(err error) string {
	var rejected *flowcontrol.RejectedError
	if errors.As(err, &rejected) {
		return rejected.Reason
	}
	return fmt.Sprint(err)
}

// Requests of a user who floods the server wait in the user's own queues, and requests of other
// users execute next. A request is rejected if it waits too long or its queue is full. Exempt
// requests do not wait.
func TestFloodWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		defer st.Close()
		c := flowcontrol.New(flowcontrol.Config{Store: st, Seats: 60})
		var flood sync.WaitGroup
		var served, full, late atomic.Int64
		for range 1000 {
			flood.Go(func() {
				ticket, err := begin(t, c, "mallory")
				switch {
				case err == nil:
					served.Add(1)
					time.Sleep(time.Second)
					ticket.Release()
				case reason(err) == "queue-full":
					full.Add(1)
				case reason(err) == "time-out":
					late.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		ticket, err := begin(t, c, "ann")
		require.NoError(t, err)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("another user waited %s", took)
		}
		ticket.Release()
		start = time.Now()
		if ticket, err = begin(t, c, "root", user.SystemPrivilegedGroup); err != nil || time.Since(start) != 0 {
			t.Errorf("an administrator waited %s: %v", time.Since(start), err)
		}
		ticket.Release()
		flood.Wait()
		if served.Load() == 0 || full.Load() == 0 || late.Load() == 0 || served.Load()+full.Load()+late.Load() != 1000 {
			t.Errorf("served %d, queue full %d, too late %d", served.Load(), full.Load(), late.Load())
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		want := fmt.Sprintf(`# HELP apiserver_flowcontrol_dispatched_requests_total Number of requests executed by API Priority and Fairness subsystem
# TYPE apiserver_flowcontrol_dispatched_requests_total counter
apiserver_flowcontrol_dispatched_requests_total{flow_schema="catch-all",priority_level="catch-all"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt",priority_level="exempt"} 1
apiserver_flowcontrol_dispatched_requests_total{flow_schema="global-default",priority_level="global-default"} %d
apiserver_flowcontrol_dispatched_requests_total{flow_schema="kube-controller-manager",priority_level="workload-high"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="kube-scheduler",priority_level="workload-high"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="kube-system-service-accounts",priority_level="workload-high"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="probes",priority_level="exempt"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="service-accounts",priority_level="workload-low"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="system-leader-election",priority_level="leader-election"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="system-node-high",priority_level="node-high"} 0
apiserver_flowcontrol_dispatched_requests_total{flow_schema="system-nodes",priority_level="system"} 0
`, served.Load()+1)
		err = testutil.GatherAndCompare(registry, strings.NewReader(want),
			"apiserver_flowcontrol_dispatched_requests_total")
		assert.NoError(t, err)
		// The flood's requests took a second each.
		for level, took := range map[string]struct {
			count uint64
			sum   float64
		}{"global-default": {uint64(served.Load()) + 1, float64(served.Load())}, "exempt": {1, 0}} {
			if h := histogramOf(t, registry, "request_execution_seconds", level); h.GetSampleCount() != took.count ||
				h.GetSampleSum() != took.sum {
				t.Errorf("execution times of %s: %v, want %v", level, h, took)
			}
		}
		err = testutil.GatherAndCompare(registry, strings.NewReader(""),
			"apiserver_flowcontrol_no_such_metric")
		assert.NoError(t, err)
	})
}

// histogramOf returns the first histogram of a level.
func histogramOf(t *testing.T, registry *prometheus.Registry, metric, level string) *dto.Histogram {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "apiserver_flowcontrol_"+metric &&
				slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == level }) {
				return m.GetHistogram()
			}
		}
	}
	t.Fatalf("no %s of %s", metric, level)
	return nil
}

// seatsOf returns the current limit of a level.
func seatsOf(t *testing.T, c *flowcontrol.Controller, metric, level string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "apiserver_flowcontrol_"+metric && m.GetLabel()[0].GetValue() == level {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no %s of %s", metric, level)
	return 0
}

// The metrics of ratios weight every value by the time for which it applies.
func TestRatios(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		defer st.Close()
		c := flowcontrol.New(flowcontrol.Config{Store: st, Seats: 600})
		registry := prometheus.NewRegistry()
		registry.MustRegister(c)
		first, err := begin(t, c, "ann")
		require.NoError(t, err)
		limit := seatsOf(t, c, "current_limit_seats", "global-default")
		executes := func(d time.Duration) float64 { return float64(d) / limit }
		time.Sleep(3 * time.Second)
		second, err := begin(t, c, "ann")
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		first.Release()
		second.Release()
		time.Sleep(5 * time.Second)
		for _, test := range []struct {
			metric, label string
			sum           float64
			idle          time.Duration // how long the ratio was at most the first bound
		}{
			{"priority_level_request_utilization", "global-default", executes(7 * time.Second), 5 * time.Second},
			{"priority_level_seat_utilization", "global-default", executes(7 * time.Second), 5 * time.Second},
			{"demand_seats", "global-default", executes(7 * time.Second), 10 * time.Second},
			{"priority_level_seat_utilization", "workload-low", 0, 10 * time.Second},
			{"read_vs_write_current_requests", "readOnly", float64(7*time.Second) / 600, 5 * time.Second},
			{"read_vs_write_current_requests", "mutating", 0, 10 * time.Second},
		} {
			h := histogramOf(t, registry, test.metric, test.label)
			if h.GetSampleCount() != uint64(10*time.Second) ||
				math.Abs(h.GetSampleSum()-test.sum) > 1e-3*float64(time.Second) ||
				h.GetBucket()[0].GetCumulativeCount() != uint64(test.idle) {
				t.Errorf("%s of %s: %v, want the sum %v", test.metric, test.label, h, test.sum)
			}
		}

		// Requests that wait count too.
		h := waitingOf(t, registry, "global-default")
		assert.Equalf(t, h.GetSampleSum(), 0, "a request waited: %v", h)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if ticket, err := begin(t, c, "mallory"); err == nil {
					time.Sleep(time.Second)
					ticket.Release()
				}
			})
		}
		all.Wait()
		seats := histogramOf(t, registry, "priority_level_seat_utilization", "global-default")
		full := seats.GetSampleCount() - seats.GetBucket()[len(seats.GetBucket())-2].GetCumulativeCount()
		if full < uint64(time.Second) {
			t.Errorf("all seats were taken for %s: %v", time.Duration(full), seats)
		}
		if h := waitingOf(t, registry, "global-default"); h.GetSampleSum() == 0 {
			t.Errorf("no request waited: %v", h)
		}
	})
}

// waitingOf returns the distribution of waiting requests of a level.
func waitingOf(t *testing.T, registry *prometheus.Registry, level string) *dto.Histogram {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "apiserver_flowcontrol_priority_level_request_utilization" &&
				m.GetLabel()[0].GetValue() == "waiting" && m.GetLabel()[1].GetValue() == level {
				return m.GetHistogram()
			}
		}
	}
	t.Fatalf("no waiting requests of %s", level)
	return nil
}

// A busy level borrows from idle ones after ten seconds. Without requests, no timer runs, so a year
// of virtual time passes immediately.
func TestBorrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		defer st.Close()
		c := flowcontrol.New(flowcontrol.Config{Store: st, Seats: 600})
		ticket, err := begin(t, c, "ann")
		require.NoError(t, err)
		ticket.Release()
		const nominal = 49 // 600 seats × 20 of 245 shares
		assert.Equalf(t, seatsOf(t, c, "nominal_limit_seats", "global-default"), nominal, "nominal seats")
		before := seatsOf(t, c, "current_limit_seats", "global-default")
		over := make(chan struct{})
		var flood sync.WaitGroup
		for i := range 300 {
			flood.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				ticket := new(flowcontrol.Ticket)
				req, info, u := ask(ctx, fmt.Sprint("user-", i), "get")
				if err := c.Begin(ticket, req, info, u); err != nil {
					t.Error(err)
					return
				}
				<-over
				ticket.Release()
			})
		}
		time.Sleep(30 * time.Second)
		busy := seatsOf(t, c, "current_limit_seats", "global-default")
		if before < nominal/2 || busy <= 2*before {
			t.Errorf("%v seats before the flood, %v in it", before, busy)
		}
		if least := seatsOf(t, c, "current_limit_seats", "leader-election"); least < 24 {
			t.Errorf("leader election, which does not lend seats, has %v seats", least)
		}
		close(over)
		flood.Wait()
		start := time.Now()
		time.Sleep(365 * 24 * time.Hour)
		if time.Since(start) < 365*24*time.Hour {
			t.Error("virtual time did not advance")
		}
		ticket, err = begin(t, c, "ann")
		require.NoError(t, err)
		ticket.Release()
	})
}

// A new configuration applies to the next request, and to waiting ones. A deleted level serves its
// remaining requests.
func TestConfigurationAppliesImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		defer st.Close()
		c := flowcontrol.New(flowcontrol.Config{Store: st, Seats: 10})
		one := bootstrap.SuggestedPriorityLevelConfigurationWorkloadLow.DeepCopy()
		one.Name, one.UID = "one", "uid-of-one"
		var shares, none int32 = 1, 0
		one.Spec.Limited.NominalConcurrencyShares, one.Spec.Limited.LendablePercent,
			one.Spec.Limited.BorrowingLimitPercent = &shares, &none, &none
		put(t, st, levels, one, false)
		mine := bootstrap.SuggestedFlowSchemaGlobalDefault.DeepCopy()
		mine.Name, mine.UID, mine.Spec.MatchingPrecedence, mine.Spec.PriorityLevelConfiguration.Name = "mine",
			"uid-of-mine", 50, "one"
		mine.Spec.Rules[0].Subjects = []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser,
			User: &flowcontrolv1.UserSubject{Name: "ann"}}}
		put(t, st, schemas, mine, false)

		first, err := begin(t, c, "ann")
		require.NoError(t, err)
		if schema, level := first.Headers(); schema[0] != "uid-of-mine" || level[0] != "uid-of-one" {
			t.Errorf("classified as %s, %s", schema, level)
		}
		// The second one waits, and gets the seat.
		got := make(chan error)
		var second *flowcontrol.Ticket
		go func() {
			var err error
			second, err = begin(t, c, "ann")
			got <- err
		}()
		synctest.Wait()
		put(t, st, levels, one, true)
		other, err := begin(t, c, "ann") // the level is deleted: global-default applies
		require.NoError(t, err)
		if schema, _ := other.Headers(); schema[0] == "uid-of-mine" {
			t.Error("a FlowSchema without a level has an effect")
		}
		other.Release()
		first.Release()
		assert.NoErrorf(t, <-got, "a request of a deleted level")
		second.Release()
		second.Release() // a second call has no effect

		put(t, st, levels, one, false)
		first, err = begin(t, c, "ann")
		require.NoError(t, err)
		one.Spec.Limited.LimitResponse = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}
		put(t, st, levels, one, false)
		if _, err := begin(t, c, "ann"); reason(err) != "concurrency-limit" {
			t.Errorf("request beyond the limit of a level without queues: %v", err)
		}
		first.Release()
		first, err = begin(t, c, "ann")
		assert.NoError(t, err)
		first.Release()
	})
}

// BenchmarkBegin measures a request when no request waits.
func BenchmarkBegin(b *testing.B) {
	st := newStore(b)
	defer st.Close()
	c := flowcontrol.New(flowcontrol.Config{Store: st, Seats: 600})
	for _, test := range []struct {
		name, user, verb string
		groups           []string
	}{
		{"administrator", "root", "get", []string{user.SystemPrivilegedGroup}},
		{"user", "ann", "get", []string{"developers"}},
		{"service account", "system:serviceaccount:x:y", "update",
			[]string{"system:serviceaccounts", "system:serviceaccounts:x"}},
	} {
		b.Run(test.name, func(b *testing.B) {
			req, info, u := ask(context.Background(), test.user, test.verb, test.groups...)
			b.ReportAllocs()
			for b.Loop() {
				var ticket flowcontrol.Ticket
				require.NoError(b, c.Begin(&ticket, req, info, u))
				ticket.Release()
			}
		})
	}
}
