package informer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/fieldlabels"
)

// errBehind is returned if a result must contain an own write that the copy does not have yet.
var errBehind = errors.New("informer is behind")

// A query is the selection of a list. A field name is the name of an index or the JSON path of a
// field.
type query struct {
	namespace    string
	labels       labels.Selector
	requirements fields.Requirements
	nothing      bool   // no object matches
	index, value string // the first index to use, if any
}

func (i *informer) selection(o client.ListOptions) query {
	q := query{namespace: o.Namespace, labels: o.Labels}
	if o.Fields != nil {
		q.requirements = o.Fields.Requirements()
		q.nothing = len(q.requirements) == 0 && !o.Fields.Empty()
	}
	for _, by := range o.Indexes {
		q.requirements = append(q.requirements[:len(q.requirements):len(q.requirements)],
			fields.Requirement{Field: by.Name, Operator: selection.Equals, Value: by.Value})
	}
	for _, r := range q.requirements {
		if q.index == "" && r.Operator != selection.NotEquals && i.objs.HasIndex(r.Field) {
			q.index, q.value = r.Field, r.Value
		}
	}
	return q
}

// checkIndexes returns an error if the informer lacks an index.
func (i *informer) checkIndexes(o client.ListOptions) error {
	for _, by := range o.Indexes {
		if !i.objs.HasIndex(by.Name) {
			return fmt.Errorf("index %q of %s objects of type %v: %w", by.Name, i.id.kind.Kind, i.id.form.Elem(),
				client.ErrNoIndex)
		}
	}
	return nil
}

// snapshot returns the objects of copy and overlay that may match a query, and their version. The
// caller holds the lock.
func (i *informer) snapshot(q query) (objs []client.Object, version string, err error) {
	var all []client.Object
	if q.index != "" {
		all, err = i.objs.ByIndex(q.index, q.value)
	} else {
		all = i.list(q.namespace)
	}
	if err != nil {
		return nil, "", err
	}
	objs = all[:0]
	for _, obj := range all {
		if len(i.written) > 0 {
			if _, isPending := i.pending(client.KeyOf(obj)); isPending {
				continue
			}
		}
		objs = append(objs, obj)
	}
	for key := range i.written {
		e, isPending := i.pending(key)
		if !isPending || q.namespace != "" && key.Namespace != q.namespace || i.partOf(key) == nil {
			continue
		}
		switch e.kind {
		case behind, outdated:
			return nil, "", errBehind
		case opaque:
			return nil, "", errAskServer
		case present:
			if e.scoped.err != nil {
				return nil, "", e.scoped.err
			}
			if e.scoped.in {
				objs = append(objs, e.obj)
			}
		}
	}
	return objs, i.version(), nil
}

// version returns the version up to which the copy has all changes; empty if it is not known. The
// caller holds the lock.
func (i *informer) version() string {
	// Parts may be at different versions; the oldest holds for all.
	var oldest uint64
	for n, p := range i.parts {
		if n == 0 || p.progress < oldest {
			oldest = p.progress
		}
	}
	if oldest == 0 {
		return ""
	}
	return strconv.FormatUint(oldest, 10)
}

// filter returns the objects that match a query.
func (i *informer) filter(objs []client.Object, q query) ([]client.Object, error) {
	matching := objs[:0]
	for _, obj := range objs {
		match, err := i.matches(obj, q)
		if err != nil {
			return nil, err
		}
		if match {
			matching = append(matching, obj)
		}
	}
	return matching, nil
}

func (i *informer) matches(obj client.Object, q query) (bool, error) {
	if q.nothing || q.namespace != "" && obj.GetNamespace() != q.namespace {
		return false, nil
	}
	if q.labels != nil && !q.labels.Empty() {
		if set, err := i.format.labelsOf(obj); err != nil || !q.labels.Matches(set) {
			return false, err
		}
	}
	return i.matchesFields(obj, q.requirements)
}

// inScope reports whether the informer caches an object. The error is errAskServer if the object
// does not contain enough information.
func (i *informer) inScope(obj client.Object) (bool, error) {
	if in := i.inNamespacesAndLabels(obj); !in || i.scope.Fields == nil {
		return in, nil
	}
	return i.matchesFields(obj, i.scope.Fields.Requirements())
}

// scoped is the result of inScope for an object as the server has it: a transform may remove the
// labels and fields that the scope selects by.
type scoped struct {
	in  bool // false if err is not nil
	err error
}

func (i *informer) scopedOf(obj client.Object) scoped {
	in, err := i.inScope(obj)
	return scoped{in && err == nil, err}
}

func (i *informer) inNamespacesAndLabels(obj client.Object) bool {
	if ns := obj.GetNamespace(); ns != "" && len(i.scope.Namespaces) > 0 && !slices.Contains(i.scope.Namespaces, ns) {
		return false
	}
	return i.scope.Labels == nil || i.scope.Labels.Matches(labels.Set(obj.GetLabels()))
}

// matchesFields returns errAskServer if the object does not contain enough information.
func (i *informer) matchesFields(obj client.Object, requirements fields.Requirements) (bool, error) {
	asks := false
	for _, r := range requirements {
		var equal bool
		if i.objs.HasIndex(r.Field) {
			values, err := i.objs.IndexOf(r.Field, obj)
			if err != nil {
				return false, err
			}
			equal = slices.Contains(values, r.Value)
		} else {
			value, certainty, err := i.format.fieldOf(obj, r.Field)
			if err != nil {
				return false, err
			}
			if equal = value == r.Value; equal && certainty != fieldlabels.Certain || certainty.MayBe(r.Value, value) {
				asks = true
				continue
			}
		}
		if equal == (r.Operator == selection.NotEquals) {
			return false, nil
		}
	}
	if asks {
		return false, errAskServer
	}
	return true, nil
}

// fieldOf returns the text of the field at a path like "spec.nodeName", in the form that servers
// compare; empty if it is unset. If a Go type has no such field, the error is a BadRequest, as from
// the server.
func (f *format) fieldOf(obj client.Object, path string) (value string, certainty fieldlabels.Certainty, err error) {
	var data []byte
	switch o := obj.(type) {
	case *packed:
		var encoded bool
		if err := f.open(o, func(data []byte) (err error) {
			if encoded = data[0] == '{'; encoded {
				value, err = fieldlabels.Encoded(data, f.id.kind, path)
			}
			return err
		}); err != nil {
			f.garbled(o, err)
			return "", fieldlabels.Certain, nil
		}
		if !encoded {
			whole := f.whole(obj)
			if whole == nil {
				return "", fieldlabels.Certain, nil
			}
			return fieldlabels.Of(whole, f.id.kind, path)
		}
	case *client.Encoded:
		if data = o.Data; data[0] != '{' {
			whole := f.newObject()
			if err := client.Decode(data, whole, f.id.kind); err != nil {
				return "", fieldlabels.Certain, err
			}
			return fieldlabels.Of(whole, f.id.kind, path)
		}
		if value, err = fieldlabels.Encoded(data, f.id.kind, path); err != nil {
			return "", fieldlabels.Certain, err
		}
	default:
		return fieldlabels.Of(obj, f.id.kind, path)
	}
	if value == "" {
		_, _, err = fieldlabels.Of(f.newObject(), f.id.kind, path) // to check that the field exists
	}
	return value, fieldlabels.Certain, err
}
