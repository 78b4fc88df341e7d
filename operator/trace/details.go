package trace

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// Details are what a reconcile read and logged, and the state of its queue. They are recorded only
// for a Sink.
type Details struct {
	// Queue is nil if the reconcile did not come from a queue that reports its state.
	Queue *Queue
	// RetryAfter is the backoff after an error; zero if the object is not retried, or is retried
	// immediately.
	RetryAfter time.Duration
	// Reads and Logs are in the order in which they ended, at most maxReads and maxLogs of them;
	// MoreReads and MoreLogs count the others.
	Reads               []Read
	Logs                []Log
	MoreReads, MoreLogs int
	// Writes are the times of Record.Writes, in the same order.
	Writes []Timing
}

// Timing is when a call began, counted from the start of the reconcile, and how long it took.
type Timing struct{ At, Duration time.Duration }

// Queue is the state of a controller's queue at the start of a reconcile.
type Queue struct {
	Waited   time.Duration // from when the object was ready to the start of the reconcile
	Priority int           // of the object
	Retries  int           // since the object's last success
	Ready    int           // other objects that could be reconciled now
	Delayed  int           // objects that wait for their time
	Running  int           // objects in reconciles, including this one
}

// Read is one read by a reconcile, from an informer or from the API server.
type Read struct {
	Verb    string // get or list
	Cluster string
	Kind    string
	// Key is the object, or the namespace of a list.
	Key client.Key
	// Selector is the label and field selector of a list.
	Selector string
	// Live means that the reconcile read the server's state.
	Live bool
	// ResourceVersion is the version of the object or list; empty if the read failed.
	ResourceVersion string
	// Count is the number of items of a list.
	Count int
	Err   error
	Timing
}

// Bounds of the details of a record, so that a reconcile which reads or logs in a loop does not
// make the trace huge.
const (
	maxReads = 500
	maxLogs  = 200
	maxText  = 2048 // bytes of a message, and of its attributes
)

// Details reports whether records have Details.
func (t *Tracer) Details() bool { return t != nil && t.cfg.Sink != nil }

// detailed returns the span of a context if its reconcile is recorded with details; or else nil.
func (r *recording) detailed(ctx context.Context) *Span {
	if !r.tracer.Details() {
		return nil
	}
	s, _ := ctx.Value(spanKey{}).(*Span)
	return s
}

// Queued sets the state of the queue. It has no effect on a nil Span, and without details.
func (s *Span) Queued(q Queue) { s.detail(func(d *Details) { d.Queue = &q }) }

// Retried sets the backoff after the error of the reconcile.
func (s *Span) Retried(after time.Duration) { s.detail(func(d *Details) { d.RetryAfter = after }) }

// detail changes the details, unless the record has ended or has none.
func (s *Span) detail(change func(*Details)) {
	if s == nil || !s.tracer.Details() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	change(s.details())
}

// details returns the details of the record, and creates them if there are none. The caller holds
// the lock.
func (s *Span) details() *Details {
	if s.record.Details == nil {
		s.record.Details = &Details{}
	}
	return s.record.Details
}

// since returns the timing of a call that began at a time and ends now.
func (s *Span) since(began time.Time) Timing {
	return Timing{At: began.Sub(s.record.Time), Duration: time.Since(began)}
}

func (s *Span) addRead(r Read) {
	s.detail(func(d *Details) {
		if len(d.Reads) < maxReads {
			d.Reads = append(d.Reads, r)
		} else {
			d.MoreReads++
		}
	})
}

// Read calls do, and records it as a read of the reconcile of ctx: describe returns the read,
// without its error and times, when do has returned. Without a reconcile, and without details, it
// only calls do. It is for clients that do not read through Client.
func (t *Tracer) Read(ctx context.Context, do func() error, describe func() Read) error {
	span, _ := ctx.Value(spanKey{}).(*Span)
	if span == nil || !t.Details() {
		return do()
	}
	began := time.Now()
	err := do()
	timing := span.since(began)
	read := describe()
	if read.Err, read.Timing = err, timing; err != nil {
		read.ResourceVersion, read.Count = "", 0
	}
	span.addRead(read)
	return err
}

func (r *recording) Get(ctx context.Context, key client.Key, into client.Object, opts ...client.GetOption) error {
	if !r.tracer.Keeps() {
		return r.Client.Get(ctx, key, into, opts...)
	}
	span := r.detailed(ctx)
	var began time.Time
	if span != nil {
		began = time.Now()
	}
	err := r.Client.Get(ctx, key, into, opts...)
	kind, cluster, version := r.kind(into), reconcile.Cluster(ctx), ""
	if err == nil {
		version = into.GetResourceVersion()
		r.tracer.known.saw(subject{cluster, kind, key}, version)
	}
	if span != nil {
		o := client.NewGetOptions(opts...)
		span.addRead(Read{
			Verb: "get", Cluster: cluster, Kind: kind, Key: key, Live: r.live || o.Live || o.ResourceVersion != "",
			ResourceVersion: version, Err: err, Timing: span.since(began),
		})
	}
	return err
}

func (r *recording) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	span := r.detailed(ctx)
	if span == nil {
		return r.Client.List(ctx, into, opts...)
	}
	began := time.Now()
	err := r.Client.List(ctx, into, opts...)
	o := client.NewListOptions(opts...)
	read := Read{
		Verb: "list", Cluster: reconcile.Cluster(ctx), Kind: r.kindOfItems(into),
		Key: client.Key{Namespace: o.Namespace}, Selector: selector(o),
		Live: r.live || o.Live || o.ResourceVersion != "", Err: err, Timing: span.since(began),
	}
	if err == nil {
		read.ResourceVersion, read.Count = into.GetResourceVersion(), meta.LenList(into)
	}
	span.addRead(read)
	return err
}

// kindOfItems returns the kind of a list's items; empty if the scheme does not have it.
func (r *recording) kindOfItems(list client.ObjectList) string {
	item, err := client.ItemOf(list, r.Client.Scheme())
	if err != nil {
		return strings.TrimSuffix(list.GetObjectKind().GroupVersionKind().Kind, "List")
	}
	return r.kind(item)
}

// selector returns the selectors of a list, as labels,fields.
func selector(o client.ListOptions) string {
	var all []string
	if o.Labels != nil && !o.Labels.Empty() {
		all = append(all, o.Labels.String())
	}
	if o.Fields != nil && !o.Fields.Empty() {
		all = append(all, o.Fields.String())
	}
	return strings.Join(all, ",")
}
