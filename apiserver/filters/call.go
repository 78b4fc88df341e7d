package filters

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/flowcontrol"
)

// call is the context of a request. It holds the results of all stages under Kubernetes' own keys,
// because a context for each result would copy the request each time.
//
// Each stage writes to it before it calls the next one; handlers only read.
type call struct {
	deadline // limits the context of the incoming request
	warnings

	answer      recorder
	received    time.Time
	info        *request.RequestInfo // nil before stage informed
	longRunning bool                 // its duration is up to the client
	malformed   error                // of the query: its timeout or its selectors
	allowed     bool                 // all stages before the handler have passed
	user        user.Info            // nil before stage authenticated
	audiences   authenticator.Audiences
	ticket      flowcontrol.Ticket                      // ticket of flow control
	watching    bool                                    // the ticket is that of a watch
	seat        seat                                    // seat of a short request
	latencies   atomic.Pointer[request.LatencyTrackers] // nil: no latency was tracked yet
}

// The keys of Kubernetes' libraries.
var (
	infoKey      = keyOf(func(ctx context.Context) { request.RequestInfoFrom(ctx) })
	kubeUserKey  = keyOf(func(ctx context.Context) { request.UserFrom(ctx) })
	receivedKey  = keyOf(func(ctx context.Context) { request.ReceivedTimestampFrom(ctx) })
	audiencesKey = keyOf(func(ctx context.Context) { authenticator.AudiencesFrom(ctx) })
	latencyKey   = keyOf(func(ctx context.Context) { request.LatencyTrackersFrom(ctx) })
	warningKey   = keyOf(func(ctx context.Context) { warning.AddWarning(ctx, "", "-") })
)

// keyOf returns the context key that a library uses for its value.
func keyOf(lookUp func(context.Context)) any {
	recorder := &keyRecorder{Context: context.Background()}
	lookUp(recorder)
	return recorder.key
}

// keyRecorder is a context that remembers the last key that was looked up in it.
type keyRecorder struct {
	context.Context
	key any
}

func (r *keyRecorder) Value(key any) any {
	r.key = key
	return nil
}

// callKey is the context key of the innermost call.
type callKey struct{}

// callOf returns the call of a request within the pipeline. It panics outside of the pipeline.
func callOf(req *http.Request) *call {
	if c, ok := req.Context().(*call); ok {
		return c
	}
	return req.Context().Value(callKey{}).(*call)
}

// begin creates the call of a request.
func begin(w http.ResponseWriter, req *http.Request) (*recorder, *http.Request) {
	c := &call{deadline: deadline{parent: req.Context()}, answer: recorder{ResponseWriter: w}, received: time.Now()}
	return &c.answer, req.WithContext(c)
}

func (c *call) Value(key any) any {
	switch key {
	case callKey{}:
		return c
	case infoKey:
		if c.info != nil {
			return c.info
		}
	case kubeUserKey:
		if c.user != nil {
			return c.user
		}
	case receivedKey:
		return c.received
	case audiencesKey:
		if len(c.audiences) > 0 {
			return c.audiences
		}
	case warningKey:
		return c
	case flowcontrol.WaiterKey:
		if c.seat.kind != nil {
			return &c.seat
		}
		if c.watching {
			return initializing{&c.ticket}
		}
	case latencyKey:
		if c.latencies.Load() == nil {
			fresh, _ := request.LatencyTrackersFrom(request.WithLatencyTrackers(context.Background()))
			c.latencies.CompareAndSwap(nil, fresh)
		}
		return c.latencies.Load()
	}
	return c.within().Value(key)
}

// webhookTime returns how long the request waited for webhooks.
func (c *call) webhookTime() time.Duration {
	latencies := c.latencies.Load()
	if latencies == nil {
		return 0
	}
	return latencies.MutatingWebhookTracker.GetLatency() + latencies.ValidatingWebhookTracker.GetLatency()
}

// AddWarning adds a Warning header to the response.
func (c *call) AddWarning(agent, text string) { c.warnings.to(&c.answer).AddWarning(agent, text) }

// warnings creates Kubernetes' warning recorder when the first warning is added.
type warnings struct {
	once sync.Once
	kept warning.Recorder
}

func (s *warnings) to(w http.ResponseWriter) warning.Recorder {
	s.once.Do(func() {
		filters.WithWarningRecorder(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			s.kept = req.Context().Value(warningKey).(warning.Recorder)
		})).ServeHTTP(w, &http.Request{})
	})
	return s.kept
}

// deadline bounds a context in time. It starts the timer when Done is first called, which few short
// requests do.
type deadline struct {
	parent context.Context

	mu     sync.Mutex
	at     time.Time // zero: none
	ended  error     // after end
	armed  context.Context
	cancel context.CancelFunc
}

// end is called when the request is over. It cancels the context for goroutines that still wait.
func (d *deadline) end() {
	err := d.Err()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		err = context.Canceled
	}
	d.ended = err
	if d.cancel != nil {
		d.cancel()
	}
}

// within returns the context that holds all other values. Once the timer exists, that is the
// timer's context, so that derived contexts are cancelled by it.
func (d *deadline) within() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed != nil {
		return d.armed
	}
	return d.parent
}

func (d *deadline) Deadline() (time.Time, bool) {
	at, ok := d.parent.Deadline()
	if d.at.IsZero() || ok && at.Before(d.at) {
		return at, ok
	}
	return d.at, true
}

func (d *deadline) Done() <-chan struct{} {
	if d.at.IsZero() {
		return d.parent.Done()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed == nil {
		d.armed, d.cancel = context.WithDeadline(d.parent, d.at)
		if d.ended != nil {
			d.cancel()
		}
	}
	return d.armed.Done()
}

func (d *deadline) Err() error {
	if d.at.IsZero() {
		return d.parent.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.armed != nil:
		return d.armed.Err()
	case d.ended != nil:
		return d.ended
	case d.parent.Err() != nil:
		return d.parent.Err()
	case !time.Now().Before(d.at):
		return context.DeadlineExceeded
	}
	return nil
}
