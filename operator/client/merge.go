package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Options are cumulative. A struct option sets the fields that are not zero: a later value, such as
// a namespace, replaces an earlier one. Selectors and preconditions are combined, so that no option
// widens what another one selects.

func (o GetOptions) applyGet(to *GetOptions) {
	to.Live = to.Live || o.Live
	add(&to.ResourceVersion, o.ResourceVersion)
	add(&to.Kind, o.Kind)
	add(&to.Shared, o.Shared)
}

func (o ListOptions) applyList(to *ListOptions) {
	add(&to.Namespace, o.Namespace)
	to.Labels = bothLabels(to.Labels, o.Labels)
	to.Fields = bothFields(to.Fields, o.Fields)
	to.Indexes = append(to.Indexes[:len(to.Indexes):len(to.Indexes)], o.Indexes...)
	add(&to.Limit, o.Limit)
	add(&to.Continue, o.Continue)
	add(&to.ResourceVersion, o.ResourceVersion)
	add(&to.ResourceVersionMatch, o.ResourceVersionMatch)
	to.Live = to.Live || o.Live
	to.Shared = to.Shared || o.Shared
	add(&to.Ahead, o.Ahead)
	if o.Known != nil {
		to.Known = o.Known
	}
	add(&to.Kind, o.Kind)
	to.Bookmarks = to.Bookmarks || o.Bookmarks
	to.InitialEvents = to.InitialEvents || o.InitialEvents
	add(&to.Timeout, o.Timeout)
}

func (o WriteOptions) applyWrite(to *WriteOptions) {
	to.DryRun = to.DryRun || o.DryRun
	add(&to.FieldOwner, o.FieldOwner)
	add(&to.Force, o.Force)
	add(&to.FieldValidation, o.FieldValidation)
	to.Given = to.Given || o.Given
	if o.Answer != nil {
		to.Answer = o.Answer
	}
	to.New = to.New || o.New
}

func (o DeleteOptions) applyDelete(to *DeleteOptions) {
	to.DryRun = to.DryRun || o.DryRun
	add(&to.GracePeriodSeconds, o.GracePeriodSeconds)
	to.Preconditions = bothPreconditions(to.Preconditions, o.Preconditions)
	add(&to.PropagationPolicy, o.PropagationPolicy)
	if o.Answer != nil {
		to.Answer = o.Answer
	}
	add(&to.Status, o.Status)
}

func (o DeleteAllOfOptions) applyDeleteAllOf(to *DeleteAllOfOptions) {
	o.applyList(&to.ListOptions)
	o.applyDelete(&to.DeleteOptions)
	if o.Answers != nil {
		to.Answers = o.Answers
	}
}

// add sets *to if value is not zero.
func add[V comparable](to *V, value V) {
	var zero V
	if value != zero {
		*to = value
	}
}

// bothLabels returns a selector of the objects that both select. A nil selector selects everything.
func bothLabels(a, b labels.Selector) labels.Selector {
	if b == nil || a == nil {
		if a == nil {
			return b
		}
		return a
	}
	requirements, selectable := b.Requirements()
	if !selectable {
		return labels.Nothing()
	}
	return a.DeepCopySelector().Add(requirements...)
}

// bothFields is bothLabels for field selectors.
func bothFields(a, b fields.Selector) fields.Selector {
	switch {
	case a == nil || b != nil && (a.Empty() || selectsNoFields(b)):
		return b
	case b == nil || b.Empty() || selectsNoFields(a):
		return a
	}
	return fields.AndSelectors(a, b)
}

// selectsNoFields reports whether a selector is [fields.Nothing], which AndSelectors and String
// drop.
func selectsNoFields(s fields.Selector) bool { return !s.Empty() && len(s.Requirements()) == 0 }

// bothPreconditions returns the fields of both, without changing either.
func bothPreconditions(a, b *metav1.Preconditions) *metav1.Preconditions {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	both := *a
	add(&both.UID, b.UID)
	add(&both.ResourceVersion, b.ResourceVersion)
	return &both
}

// The string form of a selector that selects nothing is empty, which selects everything. The client
// sends these selectors instead.
const (
	noLabels = "kelson.dev/nothing,!kelson.dev/nothing"
	noFields = "metadata.name=nothing,metadata.name!=nothing"
)

func labelQuery(s labels.Selector) string {
	if s == nil {
		return ""
	}
	if _, selectable := s.Requirements(); !selectable {
		return noLabels
	}
	return s.String()
}

func fieldQuery(s fields.Selector) string {
	switch {
	case s == nil:
		return ""
	case selectsNoFields(s):
		return noFields
	}
	return s.String()
}
