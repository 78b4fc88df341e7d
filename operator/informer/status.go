package informer

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/reflector"
)

// Status is the state of one watch of an informer. An informer has one watch for each namespace of
// its scope, or one for all.
type Status struct {
	Kind schema.GroupVersionKind
	// Type is the Go type of the objects: a struct of the scheme, unstructured.Unstructured or
	// metav1.PartialObjectMetadata.
	Type  reflect.Type
	Form  Form
	Scope Scope
	// Namespace is the watched namespace; empty for all.
	Namespace string

	// Synced is true if the copy has the first complete list.
	Synced bool
	// Err is the last error of a list or watch, if none has succeeded since. Since is the time of
	// the first of these errors. For a missing permission, Err is a [MissingPermission]. A synced
	// copy continues to serve its last state.
	Err   error
	Since time.Time
	// Progress is the time of the last event, bookmark or list; zero if there was none.
	Progress time.Time
}

// String returns a description in one line.
func (s Status) String() string {
	what := s.Kind.Kind
	if s.Kind.Group != "" {
		what += "." + s.Kind.Group
	}
	if s.Namespace != "" {
		what += " in " + s.Namespace
	}
	switch {
	case s.Err != nil && s.Synced:
		return fmt.Sprintf("%s: out of date since %s: %v", what, s.Since.UTC().Format(time.RFC3339), s.Err)
	case s.Err != nil:
		return fmt.Sprintf("%s: not synced: %v", what, s.Err)
	case !s.Synced:
		return what + ": not synced yet"
	}
	return what + ": synced"
}

// MissingPermission reports that the server forbids a request that an informer needs.
type MissingPermission struct {
	// Verb is "list" or "watch".
	Verb     string
	Resource schema.GroupResource
	// Namespace is empty if the permission is needed for all namespaces.
	Namespace string
	// Err is the error from the server.
	Err error
}

func (e *MissingPermission) Error() string {
	where := "a ClusterRoleBinding"
	if e.Namespace != "" {
		where = "a RoleBinding in " + e.Namespace
	}
	return fmt.Sprintf("the verb %q on %s is missing (grant list and watch by %s): %v", e.Verb, e.Resource, where,
		e.Err)
}

// Unwrap returns the error from the server.
func (e *MissingPermission) Unwrap() error { return e.Err }

func (s *informers) Statuses() []Status {
	var all []Status
	for _, i := range s.all() {
		all = append(all, i.statuses()...)
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(strings.Compare(a.Kind.Group, b.Kind.Group), strings.Compare(a.Kind.Kind, b.Kind.Kind),
			strings.Compare(a.Kind.Version, b.Kind.Version), strings.Compare(a.Type.String(), b.Type.String()),
			strings.Compare(a.Namespace, b.Namespace))
	})
	return all
}

func (i *informer) statuses() []Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	whole := Status{Kind: i.id.kind, Type: i.id.form.Elem(), Form: i.format.form, Scope: i.scope, Err: i.unmapped.err,
		Since: i.unmapped.since}
	if len(i.parts) == 0 {
		return []Status{whole}
	}
	all := make([]Status, len(i.parts))
	for n, p := range i.parts {
		all[n] = whole
		all[n].Namespace, all[n].Synced, all[n].Progress = p.namespace, p.synced, p.progressed
		all[n].Err, all[n].Since = p.failing.err, p.failing.since
	}
	return all
}

// failures describes a sequence of failures.
type failures struct {
	err    error // the last one; nil if there is none
	since  time.Time
	logged string // the text logged last
}

func (t *failures) note(err error) {
	if t.err == nil {
		t.since = time.Now()
	}
	t.err = err
}

// whyNot returns a reason why the informer is not synced or out of date; nil if there is none. The
// caller holds the lock.
func (i *informer) whyNot() error {
	if i.unmapped.err != nil {
		return i.unmapped.err
	}
	for _, p := range i.parts {
		if p.failing.err != nil {
			return p.failing.err
		}
	}
	return nil
}

// explain turns a Forbidden error into a MissingPermission.
func (i *informer) explain(err error, namespace string) error {
	var failure *reflector.Failed
	if !apierrors.IsForbidden(err) || !errors.As(err, &failure) {
		return err
	}
	missing := &MissingPermission{Verb: failure.Verb, Namespace: namespace, Err: failure.Err}
	missing.Resource = cached{i.set.cfg.Client, i.set}.resource(i.id.kind)
	return missing
}

func isMetadata(form reflect.Type) bool {
	return form == reflect.TypeFor[*metav1.PartialObjectMetadata]()
}
