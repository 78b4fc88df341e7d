// Package events records Events about objects, as `kubectl describe` and `kubectl get events` show
// them.
//
// # Model
//
// A [Recorder] passes events on behalf of a component to a [Broadcaster], which passes them to its
// sinks: the API server, unless configured otherwise, a log ([ToLog]), or a [Sink] of the caller.
// Each sink has a bounded buffer and, while events wait in it, a goroutine, so that a slow sink
// does not delay recorders or other sinks. If a buffer is full, the event is dropped for that sink
// and counted.
//
//	Recorder ─┐                 ┌─ buffer ─▶ ToServer: limits ─▶ create, patch
//	Recorder ─┴─▶ Broadcaster ──┼─ buffer ─▶ ToLog
//	                            └─ buffer ─▶ a Sink added at run time
//
// Three rules limit repeated events on the API server; other sinks get every event:
//
//   - an event that equals an earlier one in component, object, type, reason and message increments
//     the count of the earlier event with a patch;
//   - if events differ only in their message, those after the tenth within ten minutes are combined
//     into one;
//   - a component can write a burst of 25 events about one object, and then one every five minutes;
//     further events are dropped.
//
// The limits are those of Kubernetes' own components. A write without a response, or with one that
// asks to try again, is repeated for two minutes; later events wait in the buffer.
//
// # Use
//
//	b := events.New(events.Config{Client: c})
//	go b.Run(ctx) // writes the buffered events before it returns
//	recorder := b.Recorder("at-controller")
//	recorder.Eventf(pod, corev1.EventTypeNormal, "Started", "started after %v", wait)
//
// # Concurrency
//
// All methods are safe for concurrent use.
package events

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/client"
)

// Config configures a Broadcaster.
type Config struct {
	// Client determines the kinds of the objects that events are about, and writes the events if
	// there are no Sinks; required.
	Client client.Client
	// Sinks receive the events; ToServer(Client) if nil. With an empty slice, only sinks added
	// later do.
	Sinks []Sink
	// Log, if not nil, receives errors of sinks.
	Log *slog.Logger
	// Buffer is how many events can wait for one sink; 1000 if zero.
	Buffer int
	// FlushTimeout bounds how long Run continues to write after its context has ended; 5 s if zero.
	FlushTimeout time.Duration
}

// Broadcaster passes the events of its recorders to its sinks.
type Broadcaster struct {
	cfg     Config
	dropped atomic.Int64
	last    atomic.Int64 // number in the name of the last event

	mu       sync.RWMutex
	channels []*channel
	writing  context.Context // for sinks; nil unless Run runs
	tasks    sync.WaitGroup
}

// New returns a broadcaster. It writes nothing before Run.
func New(cfg Config) *Broadcaster {
	cfg.Buffer = cmp.Or(cfg.Buffer, 1000)
	cfg.FlushTimeout = cmp.Or(cfg.FlushTimeout, 5*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Sinks == nil {
		cfg.Sinks = []Sink{ToServer(cfg.Client)}
	}
	b := &Broadcaster{cfg: cfg}
	for _, s := range cfg.Sinks {
		b.Add(s)
	}
	return b
}

// Dropped returns how many times an event was dropped because the buffer of a sink was full.
func (b *Broadcaster) Dropped() int64 { return b.dropped.Load() }

// Recorder returns a recorder of events on behalf of a component, which is their source.
func (b *Broadcaster) Recorder(component string) *Recorder {
	return &Recorder{b: b, component: component}
}

// Route returns the Broadcaster of a cluster. Events for a nil Broadcaster are dropped. The
// functions must be safe for concurrent use.
type Route struct {
	// In returns the Broadcaster of the context's cluster.
	In func(ctx context.Context) *Broadcaster
	// Of returns the Broadcaster of the object's cluster.
	Of func(about runtime.Object) *Broadcaster
}

// NewRecorder returns a recorder on behalf of a component for objects of several clusters, each
// with its own Broadcaster.
func NewRecorder(component string, route Route) *Recorder {
	return &Recorder{component: component, route: &route}
}

// Recorder passes events to its Broadcaster. A nil Recorder records nothing.
type Recorder struct {
	b               *Broadcaster
	route           *Route // used instead of b if not nil
	component, host string
	field           string
}

// OnHost returns a recorder of events with a source host, as node agents record them.
func (r *Recorder) OnHost(host string) *Recorder {
	if r == nil {
		return nil
	}
	on := *r
	on.host = host
	return &on
}

// In returns a recorder of events in the cluster of a context: in a reconcile, the cluster of its
// object. A recorder of a single cluster returns itself.
func (r *Recorder) In(ctx context.Context) *Recorder {
	if r == nil || r.route == nil {
		return r
	}
	in := *r
	in.b, in.route = r.route.In(ctx), nil
	if in.b == nil {
		return nil
	}
	return &in
}

// About returns a recorder of events about a part of objects, given by its field path, such as
// spec.containers{app}.
func (r *Recorder) About(field string) *Recorder {
	if r == nil {
		return nil
	}
	about := *r
	about.field = field
	return &about
}

// Event records an event about an object. eventType is corev1.EventTypeNormal or EventTypeWarning;
// reason is short, in CamelCase, for programs; message is for people.
func (r *Recorder) Event(about runtime.Object, eventType, reason, message string) {
	if r == nil {
		return
	}
	b := r.b
	if r.route != nil {
		if b = r.route.Of(about); b == nil {
			return
		}
	}
	e, err := b.newEvent(about, r.component, eventType, reason, message)
	if err != nil {
		b.cfg.Log.Warn("record event", "reason", reason, "err", err)
		return
	}
	e.InvolvedObject.FieldPath = r.field
	e.Source.Host, e.ReportingInstance = r.host, r.host
	b.send(e)
}

// Eventf is Event with a message formatted as by fmt.Sprintf.
func (r *Recorder) Eventf(about runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(about, eventType, reason, fmt.Sprintf(format, args...))
}

func (b *Broadcaster) newEvent(about runtime.Object, component, eventType, reason,
	message string) (*corev1.Event, error) {
	obj, ok := about.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", about)
	}
	kind, err := client.KindOf(obj, b.cfg.Client.Scheme())
	if err != nil {
		return nil, err
	}
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault // the namespace of events about cluster-scoped objects
	}
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      fmt.Sprintf("%s.%x", obj.GetName(), b.number(now.Time)),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: obj.GetNamespace(),
			Name: obj.GetName(),
			UID:  obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		},
		Type: eventType, Reason: reason, Message: message,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, nil
}

// number returns a unique number for the name of an event: the time in nanoseconds, as in
// Kubernetes' own events, or the next free number.
func (b *Broadcaster) number(now time.Time) int64 {
	for {
		last := b.last.Load()
		n := max(now.UnixNano(), last+1)
		if b.last.CompareAndSwap(last, n) {
			return n
		}
	}
}
