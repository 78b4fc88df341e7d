package client

import (
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GetOption changes a Get.
type GetOption interface{ applyGet(*GetOptions) }

// ListOption changes a List, Watch or DeleteAllOf.
type ListOption interface{ applyList(*ListOptions) }

// WriteOption changes a Create, Update, Patch or Apply.
type WriteOption interface{ applyWrite(*WriteOptions) }

// DeleteOption changes a Delete.
type DeleteOption interface{ applyDelete(*DeleteOptions) }

// DeleteAllOfOption changes a DeleteAllOf.
type DeleteAllOfOption interface {
	applyDeleteAllOf(*DeleteAllOfOptions)
}

// GetOptions is what GetOption values add up to. It is an option itself: the fields that it sets are added, the others are left as they are.
type GetOptions struct {
	// Live reads past any cache.
	Live bool
	// ResourceVersion is how old the answer may be; empty means the newest.
	ResourceVersion string
	// Kind is of use to generic calls on dynamic objects only.
	Kind schema.GroupVersionKind
	// Shared, if set, is given the object of a cache that the answer is a copy of, if it is. It must not be changed.
	Shared *Object
}

// ListOptions is what ListOption values add up to. It is an option itself: the fields that it sets are added, the others are left as they are.
type ListOptions struct {
	// Namespace is empty for all namespaces and for kinds without namespace.
	Namespace string
	// Labels and Fields select; nil selects everything.
	Labels labels.Selector
	Fields fields.Selector
	// Limit is the length of a page, Continue the token of the page before.
	Limit    int64
	Continue string
	// ResourceVersion and ResourceVersionMatch are those of the API; empty means the newest state. A watch begins after
	// ResourceVersion.
	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch
	// Live reads past any cache.
	Live bool
	// Shared lets the objects share parts with each other that are equal, which saves memory: for readers that never change them.
	Shared bool
	// Ahead has the next page of a list read while this one is decoded, with more than Limit objects if these are small. All its pages are asked for with
	// the same Ahead, and everything else alike.
	Ahead *Ahead
	// Known may have objects that a watch brings.
	Known Known
	// Kind is of use to generic calls on dynamic objects only.
	Kind schema.GroupVersionKind

	// Bookmarks, InitialEvents and Timeout are for watches: ask for bookmarks; begin with the present state as ADDED events
	// that a bookmark with the annotation k8s.io/initial-events-end closes; let the server end the watch after that time
	// (whole seconds).
	Bookmarks     bool
	InitialEvents bool
	Timeout       time.Duration
}

// Known is who may have an object already that a watch brings: at that very version, of the type that is watched, and changed by nobody. Then it is not
// decoded once more. It is asked by several goroutines.
type Known interface {
	// Some says whether there is anything to ask for.
	Some() bool
	// Object is the one with the namespace, name, uid and resourceVersion of head; nil if it is not known.
	Object(head metav1.ObjectMeta) Object
}

// WriteOptions is what WriteOption values add up to. It is an option itself: the fields that it sets are added, the others are left as they are.
type WriteOptions struct {
	DryRun     bool
	FieldOwner string
	// Force is used by Apply (nil: forced) and by patches of the apply type.
	Force           *bool
	FieldValidation string
	// Given says that the caller does not touch the object after the write, so that a cache may keep it instead of a copy.
	Given bool
	// New says that the object is not there, as far as the caller knows. An Apply that is forced then creates it, which costs a server less, and applies only if it is there after
	// all. What is applied, and what later applies take back, is the same.
	New bool
}

// DeleteOptions is what DeleteOption values add up to. It is an option itself: the fields that it sets are added, the others are left as they are.
type DeleteOptions struct {
	DryRun             bool
	GracePeriodSeconds *int64
	Preconditions      *metav1.Preconditions
	PropagationPolicy  *metav1.DeletionPropagation
	// Answer, if set, is given what the server answered when that was an object: the last state of what is gone, or the
	// state of what waits for its finalizers or grace period.
	Answer Object
	// Status, if set, is given the answer when it was a status (the object is gone).
	Status *metav1.Status
}

// DeleteAllOfOptions is what DeleteAllOfOption values add up to. It is an option itself: the fields that it sets are added, the others are left as they are.
type DeleteAllOfOptions struct {
	ListOptions
	DeleteOptions
	// Answers, if set, is given the objects the server says it has deleted or begun to delete, as they were before.
	Answers ObjectList
}

// NewGetOptions adds options up.
func NewGetOptions(opts ...GetOption) GetOptions {
	var o GetOptions
	for _, opt := range opts {
		opt.applyGet(&o)
	}
	return o
}

// NewListOptions adds options up.
func NewListOptions(opts ...ListOption) ListOptions {
	var o ListOptions
	for _, opt := range opts {
		opt.applyList(&o)
	}
	return o
}

// NewWriteOptions adds options up.
func NewWriteOptions(opts ...WriteOption) WriteOptions {
	var o WriteOptions
	for _, opt := range opts {
		opt.applyWrite(&o)
	}
	return o
}

// NewDeleteOptions adds options up.
func NewDeleteOptions(opts ...DeleteOption) DeleteOptions {
	var o DeleteOptions
	for _, opt := range opts {
		opt.applyDelete(&o)
	}
	return o
}

// NewDeleteAllOfOptions adds options up.
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

// InNamespace restricts to one namespace.
type InNamespace string

func (n InNamespace) applyList(o *ListOptions)               { o.Namespace = string(n) }
func (n InNamespace) applyDeleteAllOf(o *DeleteAllOfOptions) { o.Namespace = string(n) }

// MatchingLabels selects objects that have all these labels. Several label options must all match.
type MatchingLabels map[string]string

func (m MatchingLabels) applyList(o *ListOptions) {
	MatchingSelector{labels.SelectorFromSet(labels.Set(m))}.applyList(o)
}
func (m MatchingLabels) applyDeleteAllOf(o *DeleteAllOfOptions) { m.applyList(&o.ListOptions) }

// MatchingSelector selects by a label selector. Several label options must all match.
type MatchingSelector struct{ labels.Selector }

func (m MatchingSelector) applyList(o *ListOptions)               { o.Labels = bothLabels(o.Labels, m.Selector) }
func (m MatchingSelector) applyDeleteAllOf(o *DeleteAllOfOptions) { m.applyList(&o.ListOptions) }

// MatchingFields selects objects with these field values. The server knows a few fields per kind; reads from an informer
// know every field and every index by its name. Several field options must all match.
//
// A field that is not set has the empty value; zero and false are "0" and "false". Where a Go type does not tell an unset number or boolean
// from a zero, and the selector asks for one of them, an informer's client reads from the server.
type MatchingFields fields.Set

func (m MatchingFields) applyList(o *ListOptions) {
	o.Fields = bothFields(o.Fields, fields.SelectorFromSet(fields.Set(m)))
}
func (m MatchingFields) applyDeleteAllOf(o *DeleteAllOfOptions) { m.applyList(&o.ListOptions) }

// Limit is the length of a page.
type Limit int64

func (l Limit) applyList(o *ListOptions) { o.Limit = int64(l) }

// Continue is the token of the page before.
type Continue string

func (c Continue) applyList(o *ListOptions) { o.Continue = string(c) }

// ResourceVersion is how old a read may be, or where a watch begins. Such a read goes to the server.
type ResourceVersion string

func (v ResourceVersion) applyGet(o *GetOptions)   { o.ResourceVersion = string(v) }
func (v ResourceVersion) applyList(o *ListOptions) { o.ResourceVersion = string(v) }

type live bool

func (l live) applyGet(o *GetOptions)   { o.Live = bool(l) }
func (l live) applyList(o *ListOptions) { o.Live = bool(l) }

// Live reads from the server, past any cache.
const Live = live(true)

// OfKind names the kind for generic calls on dynamic and metadata-only objects, whose Go type does not tell it:
//
//	client.List[unstructured.Unstructured](ctx, c, client.OfKind(gvk))
type OfKind schema.GroupVersionKind

func (k OfKind) applyGet(o *GetOptions)   { o.Kind = schema.GroupVersionKind(k) }
func (k OfKind) applyList(o *ListOptions) { o.Kind = schema.GroupVersionKind(k) }

type dryRun bool

func (d dryRun) applyWrite(o *WriteOptions)             { o.DryRun = bool(d) }
func (d dryRun) applyDelete(o *DeleteOptions)           { o.DryRun = bool(d) }
func (d dryRun) applyDeleteAllOf(o *DeleteAllOfOptions) { o.DryRun = bool(d) }

// DryRunAll does everything but store the result.
const DryRunAll = dryRun(true)

// FieldOwner is the name recorded in managedFields, instead of the client's own.
type FieldOwner string

func (f FieldOwner) applyWrite(o *WriteOptions) { o.FieldOwner = string(f) }

type force bool

func (f force) applyWrite(o *WriteOptions) { b := bool(f); o.Force = &b }

const (
	// ForceOwnership takes fields over from other owners; Apply does so unless told otherwise.
	ForceOwnership = force(true)
	// Unforced makes an Apply fail with a conflict where another owner has set a field to another value.
	Unforced = force(false)
)

// FieldValidation says what happens to unknown and doubled fields: "Strict", "Warn" or "Ignore". Empty leaves it to the server.
type FieldValidation string

func (f FieldValidation) applyWrite(o *WriteOptions) { o.FieldValidation = string(f) }

// Preconditions must hold for a delete to happen (409 Conflict otherwise). Empty fields do not count. Several of these options must all hold.
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

// GracePeriodSeconds is the time a deleted object has to end; zero is now.
type GracePeriodSeconds int64

func (g GracePeriodSeconds) applyDelete(o *DeleteOptions) { s := int64(g); o.GracePeriodSeconds = &s }
func (g GracePeriodSeconds) applyDeleteAllOf(o *DeleteAllOfOptions) {
	g.applyDelete(&o.DeleteOptions)
}

// PropagationPolicy says what happens to the dependents of a deleted object.
type PropagationPolicy metav1.DeletionPropagation

func (p PropagationPolicy) applyDelete(o *DeleteOptions) {
	policy := metav1.DeletionPropagation(p)
	o.PropagationPolicy = &policy
}
func (p PropagationPolicy) applyDeleteAllOf(o *DeleteAllOfOptions) { p.applyDelete(&o.DeleteOptions) }

// Answer has a Delete fill an object with what the server answered, when it answered with an object.
func Answer(into Object) DeleteOption { return answer{into} }

type answer struct{ into Object }

func (a answer) applyDelete(o *DeleteOptions) { o.Answer = a.into }
