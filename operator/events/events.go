// Package events records Events about objects, as `kubectl describe` and `kubectl get events` show them.
//
// # Model
//
// A [Broadcaster] owns a bounded buffer and, while it runs, one goroutine that writes to the API server. A [Recorder] puts events into
// the buffer on behalf of one component; it never waits: when the buffer is full, the event is dropped and counted. Three things keep
// repetition away from the server:
//
//   - an event that is the same as an earlier one, by component, object, type, reason and message, counts that one up by a patch;
//   - of events that differ in their message only, those after the tenth within ten minutes are combined into one;
//   - a component may write 25 events about one object at once, and one more every five minutes; the rest is dropped.
//
// The limits are those of Kubernetes' own components.
//
// # Use
//
//	b := events.New(events.Config{Client: c})
//	go b.Run(ctx) // writes what is in the buffer before it ends
//	recorder := b.Recorder("at-controller")
//	recorder.Eventf(pod, corev1.EventTypeNormal, "Started", "started after %v", wait)
//
// # Concurrency
//
// All methods may be called from any goroutine.
package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/client"
)

// Config describes a Broadcaster.
type Config struct {
	// Client writes the events, and knows the kinds of the objects they are about; required.
	Client client.Client
	// Log, if any, is told of events that could not be written.
	Log *slog.Logger
	// Buffer is how many events may wait to be written; 1000 if zero.
	Buffer int
	// FlushTimeout bounds how long Run goes on writing after its context has ended; 5 s if zero.
	FlushTimeout time.Duration
}

// Broadcaster writes the events of its recorders.
type Broadcaster struct {
	cfg     Config
	events  chan *corev1.Event
	filter  filter
	dropped atomic.Int64
	last    atomic.Int64 // number in the name of the newest event
}

// New makes a broadcaster. It writes nothing until it runs.
func New(cfg Config) *Broadcaster {
	if cfg.Buffer == 0 {
		cfg.Buffer = 1000
	}
	if cfg.FlushTimeout == 0 {
		cfg.FlushTimeout = 5 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Broadcaster{cfg: cfg, events: make(chan *corev1.Event, cfg.Buffer)}
}

// Run writes events until ctx ends, and then those that are in the buffer. It returns nil.
func (b *Broadcaster) Run(ctx context.Context) error {
	// What was recorded while the context ended is written, too, and what is being written is not broken off.
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(b.cfg.FlushTimeout, cancel) })
	defer stop()
	for {
		select {
		case e := <-b.events:
			b.write(writing, e)
			continue
		case <-ctx.Done():
		}
		break
	}
	for writing.Err() == nil {
		select {
		case e := <-b.events:
			b.write(writing, e)
		default:
			return nil
		}
	}
	return nil
}

// Dropped is the number of events that were not written because the buffer was full.
func (b *Broadcaster) Dropped() int64 { return b.dropped.Load() }

// Recorder records events on behalf of a component, which is their source.
func (b *Broadcaster) Recorder(component string) *Recorder {
	return &Recorder{b: b, component: component}
}

// Route finds the Broadcaster of a cluster. nil means that the events are dropped. It is called by all goroutines that record events.
type Route struct {
	// In is that of the cluster of a context.
	In func(ctx context.Context) *Broadcaster
	// Of is that of the cluster of an object.
	Of func(about runtime.Object) *Broadcaster
}

// NewRecorder makes a recorder on behalf of a component for objects of several clusters, each of which has a Broadcaster.
func NewRecorder(component string, route Route) *Recorder {
	return &Recorder{component: component, route: &route}
}

// Recorder puts events into the buffer of its Broadcaster. A nil Recorder records nothing.
type Recorder struct {
	b               *Broadcaster
	route           *Route // in the place of b, if it is set
	component, host string
	field           string
}

// OnHost returns a recorder of events that happen on a host, as those of a node's agent.
func (r *Recorder) OnHost(host string) *Recorder {
	if r == nil {
		return nil
	}
	on := *r
	on.host = host
	return &on
}

// In returns a recorder of events in the cluster of a context: in a reconcile, that of its object. For a recorder of one cluster it is the same recorder.
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

// About returns a recorder of events about a part of objects, by its field path, such as spec.containers{app}.
func (r *Recorder) About(field string) *Recorder {
	if r == nil {
		return nil
	}
	about := *r
	about.field = field
	return &about
}

// Event records that something happened to an object. eventType is corev1.EventTypeNormal or EventTypeWarning; reason is short and in
// CamelCase, for machines; message is for people.
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
		b.cfg.Log.Warn("an event was not recorded", "reason", reason, "err", err)
		return
	}
	e.InvolvedObject.FieldPath = r.field
	e.Source.Host, e.ReportingInstance = r.host, r.host
	select {
	case b.events <- e:
	default:
		b.dropped.Add(1)
	}
}

// Eventf is Event with a message made as by fmt.Sprintf.
func (r *Recorder) Eventf(about runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(about, eventType, reason, fmt.Sprintf(format, args...))
}

func (b *Broadcaster) newEvent(about runtime.Object, component, eventType, reason, message string) (*corev1.Event, error) {
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
		namespace = metav1.NamespaceDefault // where events about objects without namespace are looked for
	}
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      fmt.Sprintf("%s.%x", obj.GetName(), b.number(now.Time)),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
			UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		},
		Type: eventType, Reason: reason, Message: message,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, nil
}

// number makes the names of events unique: it is the time in nanoseconds, as for Kubernetes' own events, or the next number if that
// moment is taken.
func (b *Broadcaster) number(now time.Time) int64 {
	for {
		last := b.last.Load()
		n := max(now.UnixNano(), last+1)
		if b.last.CompareAndSwap(last, n) {
			return n
		}
	}
}
