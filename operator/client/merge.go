package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Options add up. An option that is a struct adds the fields that it sets: a later option replaces a value, as a namespace, of an earlier one.
// Selectors and preconditions are never replaced: all of them must match, so that no option widens what another one selects.

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

// add sets a field to a value that is not zero.
func add[V comparable](to *V, value V) {
	var zero V
	if value != zero {
		*to = value
	}
}

// bothLabels selects what both selectors select; nil selects everything.
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

// bothFields is bothLabels for fields.
func bothFields(a, b fields.Selector) fields.Selector {
	switch {
	case a == nil || b != nil && (a.Empty() || selectsNoFields(b)):
		return b
	case b == nil || b.Empty() || selectsNoFields(a):
		return a
	}
	return fields.AndSelectors(a, b)
}

// selectsNoFields reports whether a selector is [fields.Nothing], which is lost among other selectors and when it is written.
func selectsNoFields(s fields.Selector) bool { return !s.Empty() && len(s.Requirements()) == 0 }

// bothPreconditions has the fields of both. It changes neither.
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

// What selects nothing is written like nothing at all, which selects everything. These are for servers.
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
