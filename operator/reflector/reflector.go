package reflector

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// ListOptions say what page a Source lists: the one after Continue, of the newest state.
type ListOptions struct {
	Limit    int64
	Continue string
}

// WatchOptions say what a Source watches: what comes after Version, or with InitialEvents the present state first. Bookmarks are
// always wanted. The server should end the watch after Timeout.
type WatchOptions struct {
	Version       string
	InitialEvents bool
	Timeout       time.Duration
}

// Source is the collection on the server. Errors are apierrors where the server made them.
type Source[T metav1.Object] interface {
	List(ctx context.Context, opts ListOptions) (Page[T], error)
	// Watch returns events whose objects are of type T, also in bookmarks.
	Watch(ctx context.Context, opts WatchOptions) (watch.Interface, error)
}

// Sink is the copy. Its methods are called from one goroutine.
type Sink[T metav1.Object] interface {
	Add(obj T)
	Update(obj T)
	Delete(obj T)
	// Replace is told the whole collection as of version.
	Replace(items []T, version string)
	// Bookmark is told that the copy is as of version.
	Bookmark(version string)
	// Resync is called at every resync period.
	Resync()
}

// Config says what to reflect, and where.
type Config[T metav1.Object] struct {
	Source Source[T]
	Sink   Sink[T]
	// Transform, if set, changes each object before the sink sees it, to keep less of it. It must leave the name, namespace and
	// resourceVersion, and may change and return its argument.
	Transform func(T) T
	// Resync, if positive, is the period of Sink.Resync.
	Resync time.Duration
	// Pages begins with a list in pages, instead of one that the server streams.
	Pages bool
	// PageSize of lists in pages, which are also what is read from servers that refuse to stream them; by default 500.
	PageSize int64
	// WatchTimeout is how long a watch is asked to last, up to twice as long; by default 5 minutes.
	WatchTimeout time.Duration
	// Failed, if set, is told of each failure, before the wait that follows it, by a *Failed.
	Failed func(error)
	// Opened, if set, is told of each watch that the server has accepted.
	Opened func()
	// Renew, if set, ends a wait, or closes the open watch and opens another one that continues it, for each value. It is for a caller that has
	// found out that the watch is behind: its connection may be dead.
	Renew <-chan struct{}
}

// Forever is a WatchTimeout longer than any process lives, for watches that need not be renewed.
const Forever = 50 * 365 * 24 * time.Hour

const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
	// A watch that ends sooner, without an event, counts as a failure.
	minWatch = time.Second
	// A watch that the server does not end in time is given up after this much longer.
	watchGrace = 30 * time.Second
)

// Reflector drives a Machine.
type Reflector[T metav1.Object] struct {
	cfg     Config[T]
	machine Machine[T]

	// The open watch.
	stream   watch.Interface
	opened   time.Time
	events   int
	deadline *time.Timer
}

// New makes a reflector.
func New[T metav1.Object](cfg Config[T]) *Reflector[T] {
	if cfg.PageSize == 0 {
		cfg.PageSize = 500
	}
	if cfg.WatchTimeout == 0 {
		cfg.WatchTimeout = 5 * time.Minute
	}
	return &Reflector[T]{cfg: cfg, machine: Machine[T]{Stream: !cfg.Pages, PageSize: cfg.PageSize}}
}

// Run reflects until ctx ends, and returns its error. It must not be called twice.
func (r *Reflector[T]) Run(ctx context.Context) error {
	var resync <-chan time.Time
	if r.cfg.Resync > 0 {
		ticker := time.NewTicker(r.cfg.Resync)
		defer ticker.Stop()
		resync = ticker.C
	}
	defer r.closeWatch()
	var in Input[T] = Start[T]{}
	for {
		deltas, next := r.machine.Step(in)
		r.deliver(deltas)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if next.Do != Read {
			r.closeWatch()
		}
		switch next.Do {
		case List:
			in = r.list(ctx, next)
		case Watch:
			if err := r.openWatch(ctx, next); err != nil {
				in = r.failure(ctx, "watch", err)
				continue
			}
			in = r.read(ctx, resync)
		case Read:
			in = r.read(ctx, resync)
		case Wait:
			in = r.wait(ctx, next, resync)
		}
		if in == nil {
			return ctx.Err()
		}
	}
}

func (r *Reflector[T]) deliver(deltas []Delta[T]) {
	for _, d := range deltas {
		switch d.Op {
		case Add:
			r.cfg.Sink.Add(d.Object)
		case Update:
			r.cfg.Sink.Update(d.Object)
		case Delete:
			r.cfg.Sink.Delete(d.Object)
		case Replace:
			r.cfg.Sink.Replace(d.Items, d.Version)
		case Bookmark:
			r.cfg.Sink.Bookmark(d.Version)
		}
	}
}

func (r *Reflector[T]) list(ctx context.Context, next Next) Input[T] {
	page, err := r.cfg.Source.List(ctx, ListOptions{Limit: next.Limit, Continue: next.Continue})
	if err != nil {
		return r.failure(ctx, "list", err)
	}
	if r.cfg.Transform != nil {
		for i, item := range page.Items {
			page.Items[i] = r.cfg.Transform(item)
		}
	}
	return page
}

func (r *Reflector[T]) openWatch(ctx context.Context, next Next) error {
	timeout := r.cfg.WatchTimeout + rand.N(r.cfg.WatchTimeout) // spread, so that many watches do not end together
	stream, err := r.cfg.Source.Watch(ctx, WatchOptions{Version: next.Version, InitialEvents: next.InitialEvents, Timeout: timeout})
	if err != nil {
		return err
	}
	r.stream, r.opened, r.events = stream, time.Now(), 0
	r.deadline = time.NewTimer(timeout + watchGrace)
	if r.cfg.Opened != nil {
		r.cfg.Opened()
	}
	return nil
}

// closeWatch ends the open watch and waits until it has ended.
func (r *Reflector[T]) closeWatch() {
	if r.stream == nil {
		return
	}
	r.deadline.Stop()
	r.stream.Stop()
	for range r.stream.ResultChan() {
	}
	r.stream = nil
}

// read returns nil when ctx ends.
func (r *Reflector[T]) read(ctx context.Context, resync <-chan time.Time) Input[T] {
	for {
		select {
		case event, ok := <-r.stream.ResultChan():
			if !ok {
				return Closed[T]{Early: r.events == 0 && time.Since(r.opened) < minWatch}
			}
			r.events++
			return r.input(ctx, event)
		case <-r.deadline.C:
			return Closed[T]{}
		case <-r.cfg.Renew:
			return Closed[T]{}
		case <-resync:
			r.cfg.Sink.Resync()
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *Reflector[T]) input(ctx context.Context, event watch.Event) Input[T] {
	if event.Type == watch.Error {
		return r.failure(ctx, "watch", apierrors.FromObject(event.Object))
	}
	obj, ok := any(event.Object).(T)
	if !ok {
		return r.failure(ctx, "watch", fmt.Errorf("%s event has a %T", event.Type, event.Object))
	}
	c := Change[T]{Type: event.Type, Object: obj, Version: obj.GetResourceVersion()}
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		if r.cfg.Transform != nil {
			c.Object = r.cfg.Transform(obj)
		}
	case watch.Bookmark:
		c.InitialEnd = obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
	default:
		return r.failure(ctx, "watch", fmt.Errorf("unknown type of event %q", event.Type))
	}
	return c
}

// failure reports, unless it is only the end of ctx.
func (r *Reflector[T]) failure(ctx context.Context, what string, err error) Input[T] {
	if ctx.Err() == nil && r.cfg.Failed != nil && !isExpired(err) {
		r.cfg.Failed(&Failed{Verb: what, Err: err})
	}
	return Failure[T]{err}
}

// wait returns nil when ctx ends.
func (r *Reflector[T]) wait(ctx context.Context, next Next, resync <-chan time.Time) Input[T] {
	timer := time.NewTimer(max(backoff(next.Failures), next.AtLeast))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return Waited[T]{}
		case <-r.cfg.Renew:
			return Waited[T]{}
		case <-resync:
			r.cfg.Sink.Resync()
		case <-ctx.Done():
			return nil
		}
	}
}

// backoff doubles with each failure up to a bound, and is then drawn from nothing to all of it ("full jitter"), because
// those who failed together would otherwise come back together.
func backoff(failures int) time.Duration {
	d := maxBackoff
	if failures < 7 {
		d = min(maxBackoff, minBackoff<<max(failures-1, 0))
	}
	return rand.N(d) + time.Millisecond
}
