package flowcontrol

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
)

// Config configures a Controller.
type Config struct {
	// Store contains the FlowSchemas and PriorityLevelConfigurations. The number of its objects
	// determines the estimated work of lists.
	Store *store.Store
	// Seats are divided between the priority levels: Kubernetes' server concurrency limit. It must
	// be positive.
	Seats int
	// REST returns the configuration of an administrator's client. [Controller.Run] calls it to
	// write the status of FlowSchemas.
	REST func() *rest.Config
}

// Controller admits requests. Make it with New. All methods are safe for concurrent use.
type Controller struct {
	store    *store.Store
	seats    int
	rest     func() *rest.Config
	estimate fcrequest.WorkEstimatorFunc
	maxSeats upstream.MaxSeatsTracker
	watches  upstream.WatchTracker
	dropped  upstream.DroppedRequestsTracker

	current  atomic.Pointer[config]
	exempted atomic.Pointer[exempted]
	exempt   *level
	needed   chan struct{} // closed when the configuration is first read
	kinds    byKind

	mu       sync.Mutex // protects changes of current, and the fields below
	counted  map[countsKey]*counts
	adjuster *time.Timer // nil: has not been needed yet
	adjusted time.Time   // when limits were last adjusted
	stopped  bool

	adjusting atomic.Bool
}

type countsKey struct{ schema, level string }

// New returns a controller. It does not read the store or start goroutines.
func New(cfg Config) *Controller {
	c := &Controller{
		store: cfg.Store, seats: cfg.Seats, rest: cfg.REST, counted: map[countsKey]*counts{},
		maxSeats: upstream.NewMaxSeatsTracker(), watches: upstream.NewWatchTracker(),
		dropped: upstream.NewDroppedRequestsTracker(),
	}
	c.exempt, c.needed, c.kinds = newLevel(exemptName, c), make(chan struct{}), newByKind()
	c.exempt.measureBy(int(math.Round(float64(cfg.Seats) / 10))) // as in Kubernetes
	c.estimate = fcrequest.NewWorkEstimator(c.objects, c.watches.GetInterestedWatchCount,
		fcrequest.DefaultWorkEstimatorConfig(), c.maxSeats.GetMaxSeats)
	return c
}

// RejectedError reports that a request may not execute now.
type RejectedError struct {
	// Reason is one of queue-full, concurrency-limit and time-out.
	Reason string
	// RetryAfter is how many seconds the client should wait.
	RetryAfter int64
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("request rejected by flow control: %s", e.Reason)
}

// Begin returns nil when a request may execute, or a [RejectedError] if it must be rejected. It
// blocks while the request waits in a queue, at most a quarter of the time until the deadline of
// its context. The context must have the request's RequestInfo and user under Kubernetes' keys. In
// both cases, the ticket has the values of the response headers. If Begin returns nil, the caller
// must release the ticket.
func (c *Controller) Begin(t *Ticket, req *http.Request, info *request.RequestInfo, u user.Info) error {
	c.Classify(t, info, u)
	t.level, t.info, t.user = t.schema.level, info, u.GetName()
	t.work = fcrequest.WorkEstimate{InitialSeats: 1}
	if t.level.name != exemptName {
		t.flow = t.schema.flow(info, u)
		t.work = c.estimate(req, t.schema.fs.Name, t.level.name)
	}
	level := t.level
	if reason := level.start(req.Context(), t); reason != "" {
		t.level = nil // nothing to release
		t.schema.rejected(reason)
		c.dropped.RecordDroppedRequest(level.name)
		return &RejectedError{reason, c.dropped.GetRetryAfter(level.name)}
	}
	c.kinds.executing(info).add(1, t.started)
	t.schema.dispatched.Add(1)
	t.schema.executing.Add(1)
	t.schema.executingSeats.Add(int64(t.work.MaxSeats()))
	return nil
}

// Classify sets only the ticket's values of the response headers, for a request that needs no seat.
func (c *Controller) Classify(t *Ticket, info *request.RequestInfo, u user.Info) {
	if t.schema = c.exemptSchema(u); t.schema == nil {
		t.schema = c.configuration().classify(info, u)
	}
}

// arrival is when a request was received.
func arrival(ctx context.Context) time.Time {
	if at, ok := request.ReceivedTimestampFrom(ctx); ok {
		return at
	}
	return time.Now()
}

// RegisterWatch counts a watch until the returned function is called. Writes whose events a watch
// receives cost more seats.
func (c *Controller) RegisterWatch(req *http.Request) (forget func()) {
	if forget := c.watches.RegisterWatch(req); forget != nil {
		return forget
	}
	return func() {}
}

// configuration returns the configuration of the newest state. It reflects every write that was
// acknowledged before the call.
func (c *Controller) configuration() *config {
	changed := c.store.Changed(flowSchemas, priorityLevels)
	if current := c.current.Load(); current != nil && current.changed >= changed {
		return current
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if current := c.current.Load(); current != nil && current.changed >= changed {
		return current
	}
	next := c.read(changed)
	c.divide(next, false)
	if c.current.Swap(next) == nil {
		close(c.needed)
	}
	return next
}

// countsOf returns the counts of a FlowSchema at a level. The caller holds mu.
func (c *Controller) countsOf(schema, level string) *counts {
	key := countsKey{schema, level}
	if c.counted[key] == nil {
		c.counted[key] = &counts{}
	}
	return c.counted[key]
}

// exemptName is the name of both a FlowSchema and its priority level.
const exemptName = "exempt"

// exempted is the FlowSchema exempt in a state of the store.
type exempted struct {
	changed uint64
	schema  *schema
}

// exemptSchema returns the FlowSchema of system:masters for their requests, and nil for others.
// This FlowSchema comes first in the order of precedence, and clients cannot change it, so its
// requests can be classified without the configuration. A control plane that only administrators
// use never reads the configuration.
func (c *Controller) exemptSchema(u user.Info) *schema {
	if !slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	changed := c.store.Changed(flowSchemas, priorityLevels)
	if current := c.exempted.Load(); current != nil && current.changed >= changed {
		return current.schema
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	sn := c.store.Snapshot()
	uid := func(resource string) []string {
		if obj := sn.Get(store.Key{Resource: resource, Name: exemptName}); obj != nil {
			return []string{string(obj.Head.UID)}
		}
		return noUID
	}
	s := &schema{
		fs: bootstrap.MandatoryFlowSchemaExempt, level: c.exempt, uid: uid(flowSchemas), levelUID: uid(priorityLevels),
		counts: c.countsOf(exemptName, exemptName),
	}
	c.exempted.Store(&exempted{changed, s})
	return s
}
