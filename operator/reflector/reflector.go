package reflector

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// ListOptions selects a page of a Source: the one after Continue, of the newest state.
type ListOptions struct {
	Limit    int64
	Continue string
}

// WatchOptions selects what a Source watches: changes after Version, or with InitialEvents the
// current state first. Bookmarks are always requested. The server should end the watch after
// Timeout.
type WatchOptions struct {
	Version       string
	InitialEvents bool
	Timeout       time.Duration
}

// Source is the collection on the server. Errors from the server must be apierrors.
type Source[T metav1.Object] interface {
	List(ctx context.Context, opts ListOptions) (Page[T], error)
	// Watch returns events with objects of type T, even for bookmarks.
	Watch(ctx context.Context, opts WatchOptions) (watch.Interface, error)
}

// Versioned is implemented by a Source that can return the current version of the collection. The
// reflector then detects that the server was restored from a backup: kube-apiserver accepts a watch
// from a version in its future, and delivers nothing before it has reached that version.
type Versioned interface {
	Version(ctx context.Context) (string, error)
}

// Sink is the copy. Its methods are called from one goroutine.
type Sink[T metav1.Object] interface {
	Add(obj T)
	Update(obj T)
	Delete(obj T)
	// Replace sets the complete collection as of version.
	Replace(items []T, version string)
	// Bookmark reports that the copy is as of version.
	Bookmark(version string)
	// Resync is called once per resync period.
	Resync()
}

// Config configures a Reflector.
type Config[T metav1.Object] struct {
	Source Source[T]
	Sink   Sink[T]
	// Transform, if not nil, changes each object before the sink gets it, to save memory. It may
	// modify and return its argument. It must not change name, namespace and resourceVersion.
	Transform func(T) T
	// Resync, if positive, is the period of Sink.Resync.
	Resync time.Duration
	// Pages starts with a paged list instead of a streaming list.
	Pages bool
	// PageSize is the page size of lists, which are also used if the server rejects streaming
	// lists; 500 if zero.
	PageSize int64
	// WatchTimeout is the minimum timeout of a watch, which is up to twice as long; 5 minutes if
	// zero.
	WatchTimeout time.Duration
	// Failed, if not nil, is called with a *Failed for each failure, before the following wait.
	Failed func(error)
	// Opened, if not nil, is called for each watch that the server has accepted.
	Opened func()
	// Renew, if not nil, ends a wait, or reopens the watch after the last event, for each value
	// received. Use it if the watch is known to be behind, because its connection may be broken or
	// the server may have been restored from a backup.
	Renew <-chan struct{}
}

// Forever is a WatchTimeout for watches that need no renewal.
const Forever = 50 * 365 * 24 * time.Hour

const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
	// A watch that ends earlier, without an event, counts as a failure.
	minWatch = time.Second
	// A watch that the server does not end in time is closed after this additional time.
	watchGrace = 30 * time.Second
	// A watch is reopened after 3 to 4 minutes without an event. Servers that send bookmarks send
	// one a minute while the version increases, so the connection may be broken. The system does
	// not notice that if a load balancer acknowledges the data.
	maxSilence = 3 * time.Minute
	// A streaming list is replaced by a list after this time without an event, because the server
	// sends the current state without pauses.
	maxStall = 30 * time.Second
)

// Reflector runs a Machine.
type Reflector[T metav1.Object] struct {
	cfg     Config[T]
	machine Machine[T]
	doubts  bool // the server may have an older state: a watch failed, was silent or is behind

	// The open watch.
	stream   watch.Interface
	opened   time.Time
	events   int
	deadline *time.Timer
	silence  *time.Timer // runs out if the watch is silent for too long; nil if it may be
}

// New returns a reflector.
func New[T metav1.Object](cfg Config[T]) *Reflector[T] {
	cfg.PageSize = cmp.Or(cfg.PageSize, 500)
	cfg.WatchTimeout = cmp.Or(cfg.WatchTimeout, 5*time.Minute)
	return &Reflector[T]{cfg: cfg, machine: Machine[T]{Stream: !cfg.Pages, PageSize: cfg.PageSize}}
}

// Run runs until ctx ends, and returns its error. It must be called only once.
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
			if err := r.compare(ctx, next.Version); err != nil {
				in = r.failure(ctx, "list", err)
				continue
			}
			if err := r.openWatch(ctx, next); err != nil {
				r.doubts = true
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

// compare returns a ResourceExpired error if the server has an older version than the copy.
func (r *Reflector[T]) compare(ctx context.Context, version string) error {
	source, ok := r.cfg.Source.(Versioned)
	if !ok || !r.doubts || version == "" {
		return nil
	}
	now, err := source.Version(ctx)
	if err != nil {
		return err
	}
	r.doubts = false
	if n, err := strconv.ParseUint(now, 10, 64); err == nil {
		if copied, err := strconv.ParseUint(version, 10, 64); err == nil && n < copied {
			return apierrors.NewResourceExpired(fmt.Sprintf("the server is at version %s, before %s", now, version))
		}
	}
	return nil
}

func (r *Reflector[T]) openWatch(ctx context.Context, next Next) error {
	// random, so that many watches don't end together
	timeout := r.cfg.WatchTimeout + rand.N(r.cfg.WatchTimeout)
	stream, err := r.cfg.Source.Watch(ctx, WatchOptions{Version: next.Version, InitialEvents: next.InitialEvents,
		Timeout: timeout})
	if err != nil {
		return err
	}
	r.stream, r.opened, r.events = stream, time.Now(), 0
	r.deadline, r.silence = time.NewTimer(timeout+watchGrace), nil
	if r.cfg.Opened != nil {
		r.cfg.Opened()
	}
	return nil
}

// closeWatch closes the open watch and waits until it has ended.
func (r *Reflector[T]) closeWatch() {
	if r.stream == nil {
		return
	}
	r.deadline.Stop()
	if r.silence != nil {
		r.silence.Stop()
	}
	r.stream.Stop()
	for range r.stream.ResultChan() {
	}
	r.stream = nil
}

// read returns nil when ctx ends.
func (r *Reflector[T]) read(ctx context.Context, resync <-chan time.Time) Input[T] {
	r.listen()
	var silent <-chan time.Time
	if r.silence != nil {
		silent = r.silence.C
	}
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
		case <-silent:
			r.doubts = true
			return Closed[T]{}
		case <-r.cfg.Renew:
			r.doubts = true
			return Closed[T]{}
		case <-resync:
			r.cfg.Sink.Resync()
		case <-ctx.Done():
			return nil
		}
	}
}

// listen restarts the time of silence.
func (r *Reflector[T]) listen() {
	longest := maxSilence + rand.N(maxSilence/3)
	if r.machine.state == streaming {
		longest = maxStall
	}
	switch {
	case r.silence != nil:
		r.silence.Reset(longest)
	case r.cfg.WatchTimeout != Forever:
		r.silence = time.NewTimer(longest)
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

// failure calls Failed, unless ctx has ended.
func (r *Reflector[T]) failure(ctx context.Context, what string, err error) Input[T] {
	if ctx.Err() == nil && r.cfg.Failed != nil && !isExpired(err) {
		r.cfg.Failed(&Failed{Verb: what, Err: err})
	}
	return Failure[T]{err}
}

// wait returns nil when ctx ends.
func (r *Reflector[T]) wait(ctx context.Context, next Next, resync <-chan time.Time) Input[T] {
	timer := time.NewTimer(max(backoff(next.Failures), min(next.AtLeast, maxBackoff)))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return Waited[T]{}
		case <-r.cfg.Renew:
			r.doubts = true
			return Waited[T]{}
		case <-resync:
			r.cfg.Sink.Resync()
		case <-ctx.Done():
			return nil
		}
	}
}

// backoff doubles with each failure up to a maximum, and returns a random duration up to that
// ("full jitter"), so that clients that failed together don't retry together.
func backoff(failures int) time.Duration {
	d := maxBackoff
	if failures < 7 {
		d = min(maxBackoff, minBackoff<<max(failures-1, 0))
	}
	return rand.N(d) + time.Millisecond
}
