package flowcontrol_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/eventclock"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// calls is a gauge that records which of its methods were called.
type calls struct {
	mu   sync.Mutex
	made map[string]bool
}

func (c *calls) record(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made = map[string]bool{}
	}
	c.made[method] = true
}

func (c *calls) Set(float64)            { c.record("Set") }
func (c *calls) Inc()                   { c.record("Inc") }
func (c *calls) Dec()                   { c.record("Dec") }
func (c *calls) Add(float64)            { c.record("Add") }
func (c *calls) SetToCurrentTime()      { c.record("SetToCurrentTime") }
func (c *calls) SetDenominator(float64) { c.record("SetDenominator") }

// The gauges of this package implement the methods that Kubernetes' queue set calls.
func TestQueueSetCallsOfGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waiting, executing, seats, demand calls
		cfg := fq.QueuingConfig{Name: "level", DesiredNumQueues: 1, QueueLengthLimit: 2, HandSize: 1}
		completer, err := queueset.NewQueueSetFactory(eventclock.Real{}).BeginConstruction(cfg,
			metrics.RatioedGaugePair{RequestsWaiting: &waiting, RequestsExecuting: &executing}, &seats, &demand)
		require.NoError(t, err)
		queues := completer.Complete(fq.DispatchingConfig{ConcurrencyLimit: 1, ConcurrencyDenominator: 1})
		// start returns false if the request is rejected.
		start := func(ctx context.Context, latency time.Duration, execute func()) bool {
			work := &fcrequest.WorkEstimate{InitialSeats: 1, FinalSeats: 1, AdditionalLatency: latency}
			req, _ := queues.StartRequest(ctx, work, 0, "flow", "schema", nil, nil, nil)
			if req != nil {
				go req.Finish(execute)
			}
			return req != nil
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var executed atomic.Int64
		minute := func() { executed.Add(1); time.Sleep(time.Minute) }
		if !start(t.Context(), time.Second, minute) || !start(impatient, 0, minute) || !start(t.Context(), 0, minute) {
			t.Fatal("a request was rejected")
		}
		if start(t.Context(), 0, minute) {
			t.Error("a request was accepted although the queue is full")
		}
		time.Sleep(5 * time.Minute)
		assert.Equalf(t, executed.Load(), 2, "requests were executed, want 2: one waited too long")
		cfg.DesiredNumQueues = 0 // requests do not wait
		completer, err = queues.BeginConfigChange(cfg)
		require.NoError(t, err)
		completer.Complete(fq.DispatchingConfig{ConcurrencyLimit: 1, ConcurrencyDenominator: 1})
		if !start(t.Context(), 0, minute) || start(t.Context(), 0, minute) {
			t.Error("the limit does not apply without queues")
		}
		time.Sleep(5 * time.Minute)
		for gauge, want := range map[*calls][]string{
			&waiting: {"Add", "SetDenominator"}, &executing: {"Add", "SetDenominator"},
			&seats: {"Add", "SetDenominator"}, &demand: {"Set"},
		} {
			assert.Slicef(t, slices.Sorted(maps.Keys(gauge.made)), want, "calls")
		}
	})
}
