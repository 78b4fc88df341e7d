package trace

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// Client returns a client that records the writes through c in the reconcile of their context and,
// for a Sink, the reads. A nil Tracer returns c.
func (t *Tracer) Client(c client.Client) client.Client {
	if t == nil {
		return c
	}
	return &recording{Client: c, tracer: t}
}

// LiveClient is like Client, for a client that reads only from the server: it records all reads as
// live.
func (t *Tracer) LiveClient(c client.Client) client.Client {
	if t == nil {
		return c
	}
	return &recording{Client: c, tracer: t, live: true}
}

type recording struct {
	client.Client
	tracer *Tracer
	live   bool // all reads are live
}

// MapperIn returns the mapper of the wrapped client.
func (r *recording) MapperIn(ctx context.Context) (meta.RESTMapper, error) {
	return client.MapperIn(ctx, r.Client)
}

func (r *recording) kind(obj client.Object) string {
	kind, err := client.KindOf(obj, r.Client.Scheme())
	if err != nil {
		return ""
	}
	return kind.Kind
}

// request describes a write before it is sent.
type request struct {
	verb, subresource string
	owner             string // the field manager
	dryRun            bool
	elsewhere         bool // the response is not the new state of the object
}

// write performs and records a write.
func (r *recording) write(ctx context.Context, verb, subresource string, obj client.Object, opts []client.WriteOption,
	do func() error) error {
	return r.writeBody(ctx, verb, subresource, obj, nil, opts, do)
}

// writeBody is write for writes that may send body instead of obj, and then don't modify obj.
func (r *recording) writeBody(ctx context.Context, verb, subresource string, obj client.Object, body runtime.Object,
	opts []client.WriteOption, do func() error) error {
	o := client.NewWriteOptions(opts...)
	owner := o.FieldOwner
	if owner == "" {
		owner = r.Client.FieldOwner()
	}
	return r.record(ctx, request{verb: verb, subresource: subresource, owner: owner, dryRun: o.DryRun,
		elsewhere: body != nil || o.Answer != nil}, obj, do)
}

func (r *recording) record(ctx context.Context, q request, obj client.Object, do func() error) error {
	span, _ := ctx.Value(spanKey{}).(*Span)
	cluster := reconcile.Cluster(ctx)
	// Before the request is sent: the event of the write may arrive before the response.
	known := []string{obj.GetResourceVersion(), r.tracer.known.lastOf(subject{cluster, r.kind(obj), client.KeyOf(obj)})}
	end := span.startWrite(ctx, q.verb, q.subresource)
	var began time.Time
	if r.tracer.Details() {
		began = time.Now()
	}
	err := do()
	kind, key := r.kind(obj), client.KeyOf(obj) // after the write, which may set a generated name
	end(kind, key, err)
	w := Write{Verb: q.verb, Subresource: q.subresource, Cluster: cluster, Kind: kind, Key: key, Err: err}
	if err == nil && !q.dryRun {
		by := author{manager: q.owner}
		if span != nil {
			by.reconcile = span.record.ID
		}
		w.Changed = true
		switch {
		case q.elsewhere || q.verb == "delete" || q.verb == "deletecollection":
		case q.verb == "create":
			w.ResourceVersion = obj.GetResourceVersion()
			r.tracer.known.wrote(by, subject{cluster, kind, key}, nil, w.ResourceVersion)
		default:
			w.ResourceVersion = obj.GetResourceVersion()
			if q.verb == "apply" && isOlderThanOthers(obj, q.owner) {
				known = append(known, w.ResourceVersion)
			}
			w.Changed = r.tracer.known.wrote(by, subject{cluster, kind, key}, known, w.ResourceVersion)
		}
	}
	if span != nil {
		span.addWrite(w, began)
	}
	return err
}

// isOlderThanOthers reports whether the response to an apply shows that it changed nothing: the
// server sets the time of the manager's entry in managedFields when an apply changes something, so
// an entry that is older than another manager's is from an earlier request. This does not hold for
// updates and patches: one that only removes fields leaves the time as it is.
func isOlderThanOthers(obj client.Object, owner string) bool {
	var own, others *metav1.Time
	for _, e := range obj.GetManagedFields() {
		newest := &others
		if client.FieldManager(e) == owner {
			newest = &own
		}
		if *newest == nil || (*newest).Before(e.Time) {
			*newest = e.Time
		}
	}
	return own != nil && own.Before(others)
}

func (r *recording) Create(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return r.write(ctx, "create", "", obj, opts, func() error { return r.Client.Create(ctx, obj, opts...) })
}

func (r *recording) Update(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return r.write(ctx, "update", "", obj, opts, func() error { return r.Client.Update(ctx, obj, opts...) })
}

func (r *recording) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.WriteOption) error {
	return r.write(ctx, "patch", "", obj, opts, func() error { return r.Client.Patch(ctx, obj, patch, opts...) })
}

func (r *recording) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return r.write(ctx, "apply", "", obj, opts, func() error { return r.Client.Apply(ctx, obj, opts...) })
}

func (r *recording) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	q := request{verb: "delete", dryRun: client.NewDeleteOptions(opts...).DryRun}
	return r.record(ctx, q, obj, func() error { return r.Client.Delete(ctx, obj, opts...) })
}

func (r *recording) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	q := request{verb: "deletecollection", dryRun: client.NewDeleteAllOfOptions(opts...).DryRun}
	return r.record(ctx, q, obj, func() error { return r.Client.DeleteAllOf(ctx, obj, opts...) })
}

func (r *recording) Subresource(name string) client.SubresourceWriter {
	return &recordingSubresource{SubresourceWriter: r.Client.Subresource(name), r: r, name: name}
}

type recordingSubresource struct {
	client.SubresourceWriter
	r    *recording
	name string
}

func (s *recordingSubresource) Create(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.r.writeBody(ctx, "create", s.name, obj, body, opts, func() error {
		return s.SubresourceWriter.Create(ctx, obj, body, opts...)
	})
}

func (s *recordingSubresource) Update(ctx context.Context, obj client.Object, body runtime.Object,
	opts ...client.WriteOption) error {
	return s.r.writeBody(ctx, "update", s.name, obj, body, opts, func() error {
		return s.SubresourceWriter.Update(ctx, obj, body, opts...)
	})
}

func (s *recordingSubresource) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.WriteOption) error {
	return s.r.write(ctx, "patch", s.name, obj, opts, func() error {
		return s.SubresourceWriter.Patch(ctx, obj, patch, opts...)
	})
}

func (s *recordingSubresource) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	return s.r.write(ctx, "apply", s.name, obj, opts, func() error {
		return s.SubresourceWriter.Apply(ctx, obj, opts...)
	})
}
