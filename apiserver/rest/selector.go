package rest

import (
	"fmt"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// selector is a label and a field selector over the objects of one kind.
type selector struct {
	res    *resource.Resource
	labels labels.Selector // nil: all
	fields fields.Selector // nil: all
	// name and namespace, if the field selector requires them
	name, namespace string
	// keyOnly means that the field selector uses only name and namespace.
	keyOnly bool
}

// listOptions decodes and validates the options of LIST, WATCH and DELETECOLLECTION.
func (in *input) listOptions() (*metainternalversion.ListOptions, *selector, error) {
	opts := &metainternalversion.ListOptions{}
	if err := in.query(opts); err != nil {
		return nil, nil, err
	}
	opts.Watch = opts.Watch || in.on.info.Verb == "watch"
	metainternalversion.SetListOptionsDefaults(opts, true)
	if errs := metainternalvalidation.ValidateListOptions(opts, true); len(errs) > 0 {
		return nil, nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	if opts.FieldSelector != nil {
		var err error
		if opts.FieldSelector, err = opts.FieldSelector.Transform(in.on.fieldLabel); err != nil {
			return nil, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if in.on.name != "" { // from the path of a deprecated watch, or from the field selector
		if opts.FieldSelector == nil || opts.FieldSelector.Empty() {
			opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", in.on.name)
		} else if name, ok := opts.FieldSelector.RequiresExactMatch("metadata.name"); !ok || name != in.on.name {
			return nil, nil, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
		}
	}
	return opts, newSelector(in.on.res, opts.LabelSelector, opts.FieldSelector), nil
}

// fieldLabel checks the label of a field selector.
func (t *target) fieldLabel(label, value string) (string, string, error) {
	if t.res.FieldLabel != nil {
		return t.res.FieldLabel(t.version, label, value)
	}
	if label == "metadata.name" || label == "metadata.namespace" {
		return label, value, nil
	}
	if t.res.Fields != nil && t.res.Fields(t.res.Codec.New()).Has(label) {
		return label, value, nil
	}
	return "", "", fmt.Errorf("%q is not a known field selector: only %q, %q", label, "metadata.name",
		"metadata.namespace")
}

func newSelector(res *resource.Resource, l labels.Selector, f fields.Selector) *selector {
	sel := &selector{res: res, keyOnly: true}
	if l != nil && !l.Empty() {
		sel.labels = l
	}
	if f != nil && !f.Empty() {
		sel.fields = f
		sel.name, _ = f.RequiresExactMatch("metadata.name")
		sel.namespace, _ = f.RequiresExactMatch("metadata.namespace")
		for _, r := range f.Requirements() {
			sel.keyOnly = sel.keyOnly && (r.Field == "metadata.name" || r.Field == "metadata.namespace")
		}
	}
	return sel
}

// empty reports whether the selector selects everything.
func (sel *selector) empty() bool { return sel.labels == nil && sel.fields == nil }

// matches reports whether the selector selects an object. The kind's own selectable fields are
// computed once per revision.
func (sel *selector) matches(obj *store.Object) (bool, error) {
	if sel.labels != nil && !sel.labels.Matches(labels.Set(obj.Head.Labels)) {
		return false, nil
	}
	if sel.fields == nil {
		return true, nil
	}
	if sel.keyOnly || sel.res.Fields == nil {
		return sel.fields.Matches(keyFields(obj.Key, nil)), nil
	}
	set, err := obj.Memo(fieldsOf{weak.Make(sel.res)}, func() (any, error) {
		if sel.res.StoredFields != nil {
			if set, ok := sel.res.StoredFields(obj.Data); ok {
				return keyFields(obj.Key, set), nil
			}
		}
		hub, err := sel.res.Codec.Load(obj.Data)
		if err != nil {
			return nil, err
		}
		return keyFields(obj.Key, sel.res.Fields(hub)), nil
	})
	if err != nil {
		return false, err
	}
	return sel.fields.Matches(set.(fields.Set)), nil
}

// fieldsOf is the memo key of an object's selectable fields; see formKey.
type fieldsOf struct {
	res weak.Pointer[resource.Resource]
}

// keyFields adds the fields of a key to set, which may be nil, and returns it.
func keyFields(key store.Key, set fields.Set) fields.Set {
	if set == nil {
		set = make(fields.Set, 2)
	}
	set["metadata.name"], set["metadata.namespace"] = key.Name, key.Namespace
	return set
}
