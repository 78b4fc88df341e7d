package client

import (
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GetOption configures a Get.
type GetOption interface{ applyGet(*GetOptions) }

// ListOption configures a List, Watch or DeleteAllOf.
type ListOption interface{ applyList(*ListOptions) }

// WriteOption configures a Create, Update, Patch or Apply.
type WriteOption interface{ applyWrite(*WriteOptions) }

// DeleteOption configures a Delete.
type DeleteOption interface{ applyDelete(*DeleteOptions) }

// DeleteAllOfOption configures a DeleteAllOf.
type DeleteAllOfOption interface {
	applyDeleteAllOf(*DeleteAllOfOptions)
}

// GetOptions is the result of GetOption values. It is an option itself, which sets its nonzero
// fields.
type GetOptions struct {
	// Live bypasses any cache.
	Live bool
	// ResourceVersion is the oldest acceptable version; empty means the newest.
	ResourceVersion string
	// Kind is the kind of dynamic objects in generic calls.
	Kind schema.GroupVersionKind
	// Shared, if not nil, is set to the cached object of which the result is a copy, if it comes
	// from a cache. The caller must not modify that object.
	Shared *Object
}

// ListOptions is the result of ListOption values. It is an option itself, which sets its nonzero
// fields.
type ListOptions struct {
	// Namespace is empty for all namespaces and for cluster-scoped kinds.
	Namespace string
	// Labels and Fields select objects; nil selects everything.
	Labels labels.Selector
	Fields fields.Selector
	// Indexes selects objects by indexes of the cache, see MatchingIndex.
	Indexes []IndexValue
	// Limit is the size of a page, Continue the token of the previous page.
	Limit    int64
	Continue string
	// ResourceVersion and ResourceVersionMatch are as in the Kubernetes API; empty means the newest
	// state. A watch starts after ResourceVersion.
	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch
	// Live bypasses any cache.
	Live bool
	// Shared lets objects share equal parts, which saves memory. The caller must never modify the
	// objects.
	Shared bool
	// Ahead reads the next page of a list while the caller decodes the current one, with more than
	// Limit objects per page if they are small. Pass the same Ahead and otherwise equal options for
	// all pages.
	Ahead *Ahead
	// Known supplies objects of a watch that the caller already has.
	Known Known
	// Kind is the kind of dynamic objects in generic calls.
	Kind schema.GroupVersionKind

	// Bookmarks, InitialEvents and Timeout apply to watches. Bookmarks requests bookmarks.
	// InitialEvents starts with the current state as ADDED events, followed by a bookmark with the
	// annotation k8s.io/initial-events-end. Timeout makes the server end the watch after that time,
	// in whole seconds.
	Bookmarks     bool
	InitialEvents bool
	Timeout       time.Duration
}

// Known supplies objects that a watch delivers, so that they need not be decoded again. An object
// must have exactly the version of the event and the type of the watch, and must be unmodified.
// Known must be safe for concurrent use.
type Known interface {
	// Some reports whether there are any known objects.
	Some() bool
	// Object returns the object with the namespace, name, uid and resourceVersion of head, or nil.
	Object(head metav1.ObjectMeta) Object
}

// WriteOptions is the result of WriteOption values. It is an option itself, which sets its nonzero
// fields.
type WriteOptions struct {
	DryRun     bool
	FieldOwner string
	// Force applies to Apply (nil means true) and to patches of the apply type.
	Force           *bool
	FieldValidation string
	// Given declares that the caller does not read or change the object after the write, so that a
	// cache may store it without a copy. A client without a cache ignores it. If the write fails,
	// the object stays the caller's.
	Given bool
	// New declares that the object probably does not exist. A forced Apply then creates it, which
	// costs the server less, and applies only if the object exists. The resulting object and the
	// fields that later applies remove are the same as after an apply.
	New bool
	// Answer, if not nil, is filled with the response to a patch of a subresource that has another
	// kind, such as a Scale. The patched object is then unchanged.
	Answer runtime.Object
}

// DeleteOptions is the result of DeleteOption values. It is an option itself, which sets its
// nonzero fields.
type DeleteOptions struct {
	DryRun             bool
	GracePeriodSeconds *int64
	Preconditions      *metav1.Preconditions
	PropagationPolicy  *metav1.DeletionPropagation
	// Answer, if not nil, is filled with the object in the response: the last state of a deleted
	// object, or the state of one that waits for finalizers or its grace period.
	Answer Object
	// Status, if not nil, is filled with the status in the response (the object has been deleted).
	Status *metav1.Status
}

// DeleteAllOfOptions is the result of DeleteAllOfOption values. It is an option itself, which sets
// its nonzero fields.
type DeleteAllOfOptions struct {
	ListOptions
	DeleteOptions
	// Answers, if not nil, is filled with the objects that the server has deleted or begun to
	// delete, in their state before the deletion.
	Answers ObjectList
}

// NewGetOptions combines options.
func NewGetOptions(opts ...GetOption) GetOptions {
	var o GetOptions
	for _, opt := range opts {
		opt.applyGet(&o)
	}
	return o
}

// NewListOptions combines options.
func NewListOptions(opts ...ListOption) ListOptions {
	var o ListOptions
	for _, opt := range opts {
		opt.applyList(&o)
	}
	return o
}

// NewWriteOptions combines options.
func NewWriteOptions(opts ...WriteOption) WriteOptions {
	var o WriteOptions
	for _, opt := range opts {
		opt.applyWrite(&o)
	}
	return o
}

// NewDeleteOptions combines options.
func NewDeleteOptions(opts ...DeleteOption) DeleteOptions {
	var o DeleteOptions
	for _, opt := range opts {
		opt.applyDelete(&o)
	}
	return o
}

// NewDeleteAllOfOptions combines options.
func NewDeleteAllOfOptions(opts ...DeleteAllOfOption) DeleteAllOfOptions {
	var o DeleteAllOfOptions
	for _, opt := range opts {
		opt.applyDeleteAllOf(&o)
	}
	return o
}

func (o GetOptions) query() url.Values {
	q := url.Values{}
	set(q, "resourceVersion", o.ResourceVersion)
	return q
}

func (o ListOptions) query() url.Values {
	q := url.Values{}
	set(q, "labelSelector", labelQuery(o.Labels))
	set(q, "fieldSelector", fieldQuery(o.Fields))
	if o.Limit > 0 {
		q.Set("limit", strconv.FormatInt(o.Limit, 10))
	}
	set(q, "continue", o.Continue)
	set(q, "resourceVersion", o.ResourceVersion)
	set(q, "resourceVersionMatch", string(o.ResourceVersionMatch))
	return q
}

func (o ListOptions) watchQuery() url.Values {
	o.Limit, o.Continue = 0, ""
	if o.InitialEvents && o.ResourceVersionMatch == "" {
		o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	q := o.query()
	q.Set("watch", "true")
	if o.Bookmarks || o.InitialEvents {
		q.Set("allowWatchBookmarks", "true")
	}
	if o.InitialEvents {
		q.Set("sendInitialEvents", "true")
	}
	if s := int64(o.Timeout / time.Second); s > 0 {
		q.Set("timeoutSeconds", strconv.FormatInt(s, 10))
	}
	return q
}

func (o WriteOptions) query() url.Values {
	q := url.Values{}
	if o.DryRun {
		q.Set("dryRun", metav1.DryRunAll)
	}
	set(q, "fieldManager", o.FieldOwner)
	set(q, "fieldValidation", o.FieldValidation)
	return q
}

func (o DeleteOptions) body() *metav1.DeleteOptions {
	d := &metav1.DeleteOptions{
		TypeMeta:           metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		GracePeriodSeconds: o.GracePeriodSeconds,
		Preconditions:      o.Preconditions,
		PropagationPolicy:  o.PropagationPolicy,
	}
	if o.DryRun {
		d.DryRun = []string{metav1.DryRunAll}
	}
	return d
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// InNamespace selects one namespace.
type InNamespace string

func (n InNamespace) applyList(o *ListOptions)               { o.Namespace = string(n) }
func (n InNamespace) applyDeleteAllOf(o *DeleteAllOfOptions) { o.Namespace = string(n) }

// MatchingLabels selects objects that have all these labels. Multiple label options must all match.
type MatchingLabels map[string]string

func (m MatchingLabels) applyList(o *ListOptions) {
	MatchingSelector{labels.SelectorFromSet(labels.Set(m))}.applyList(o)
}
func (m MatchingLabels) applyDeleteAllOf(o *DeleteAllOfOptions) { m.applyList(&o.ListOptions) }

// MatchingSelector selects by a label selector. Multiple label options must all match.
type MatchingSelector struct{ labels.Selector }

func (m MatchingSelector) applyList(o *ListOptions)               { o.Labels = bothLabels(o.Labels, m.Selector) }
func (m MatchingSelector) applyDeleteAllOf(o *DeleteAllOfOptions) { m.applyList(&o.ListOptions) }

// MatchingFields selects objects by field values. The server supports a few fields per kind; an
// informer's client supports every field, and every index by its name. Multiple field options must
// all match.
//
// An unset field has the empty value; zero and false are "0" and "false". If a Go type does not
// distinguish an unset number or boolean from a zero, and the selector asks for one of them, an
// informer's client reads from the server.
type MatchingFields fields.Set

func (m MatchingFields) applyList(o *ListOptions) {
	o.Fields = bothFields(o.Fields, fields.SelectorFromSet(fields.Set(m)))
}
func (m MatchingFields) applyDeleteAllOf(o *DeleteAllOfOptions) { m.applyList(&o.ListOptions) }

// Limit is the size of a page.
type Limit int64

func (l Limit) applyList(o *ListOptions) { o.Limit = int64(l) }

// Continue is the token of the previous page.
type Continue string

func (c Continue) applyList(o *ListOptions) { o.Continue = string(c) }

// ResourceVersion is the oldest version that a read may return, or the version after which a watch
// starts. Such a read goes to the server.
type ResourceVersion string

func (v ResourceVersion) applyGet(o *GetOptions)   { o.ResourceVersion = string(v) }
func (v ResourceVersion) applyList(o *ListOptions) { o.ResourceVersion = string(v) }

type live bool

func (l live) applyGet(o *GetOptions)   { o.Live = bool(l) }
func (l live) applyList(o *ListOptions) { o.Live = bool(l) }

// Live reads from the server, bypassing any cache.
const Live = live(true)

// OfKind sets the kind for generic calls on dynamic and metadata-only objects, whose Go type does
// not determine it:
//
//	client.List[unstructured.Unstructured](ctx, c, client.OfKind(gvk))
type OfKind schema.GroupVersionKind

func (k OfKind) applyGet(o *GetOptions)   { o.Kind = schema.GroupVersionKind(k) }
func (k OfKind) applyList(o *ListOptions) { o.Kind = schema.GroupVersionKind(k) }

type dryRun bool

func (d dryRun) applyWrite(o *WriteOptions)             { o.DryRun = bool(d) }
func (d dryRun) applyDelete(o *DeleteOptions)           { o.DryRun = bool(d) }
func (d dryRun) applyDeleteAllOf(o *DeleteAllOfOptions) { o.DryRun = bool(d) }

// DryRunAll makes the server process the request without storing the result.
const DryRunAll = dryRun(true)

// FieldOwner sets the field manager, instead of the client's own.
type FieldOwner string

func (f FieldOwner) applyWrite(o *WriteOptions) { o.FieldOwner = string(f) }

type force bool

func (f force) applyWrite(o *WriteOptions) { b := bool(f); o.Force = &b }

const (
	// ForceOwnership takes fields over from other managers. It is the default for Apply.
	ForceOwnership = force(true)
	// Unforced makes an Apply fail with a conflict if another manager has set a field to a
	// different value.
	Unforced = force(false)
)

// FieldValidation sets how the server handles unknown and duplicate fields: "Strict", "Warn" or
// "Ignore". Empty uses the server's default.
type FieldValidation string

func (f FieldValidation) applyWrite(o *WriteOptions) { o.FieldValidation = string(f) }

// Preconditions must hold for a delete, otherwise it fails with 409 Conflict. Empty fields are
// ignored. Multiple Preconditions must all hold.
type Preconditions struct {
	UID             types.UID
	ResourceVersion string
}

func (p Preconditions) applyDelete(o *DeleteOptions) {
	more := &metav1.Preconditions{}
	if p.UID != "" {
		more.UID = &p.UID
	}
	if p.ResourceVersion != "" {
		more.ResourceVersion = &p.ResourceVersion
	}
	o.Preconditions = bothPreconditions(o.Preconditions, more)
}

// GracePeriodSeconds is the time that a deleted object has to terminate; zero deletes immediately.
type GracePeriodSeconds int64

func (g GracePeriodSeconds) applyDelete(o *DeleteOptions) { s := int64(g); o.GracePeriodSeconds = &s }
func (g GracePeriodSeconds) applyDeleteAllOf(o *DeleteAllOfOptions) {
	g.applyDelete(&o.DeleteOptions)
}

// PropagationPolicy sets what happens to the dependents of a deleted object.
type PropagationPolicy metav1.DeletionPropagation

func (p PropagationPolicy) applyDelete(o *DeleteOptions) {
	policy := metav1.DeletionPropagation(p)
	o.PropagationPolicy = &policy
}
func (p PropagationPolicy) applyDeleteAllOf(o *DeleteAllOfOptions) { p.applyDelete(&o.DeleteOptions) }

// Answer makes a Delete fill into with the object in the server's response, if it is an object.
func Answer(into Object) DeleteOption { return answer{into} }

type answer struct{ into Object }

func (a answer) applyDelete(o *DeleteOptions) { o.Answer = a.into }
