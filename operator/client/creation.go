package client

import (
	"context"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"kelson.dev/operator/tree"
)

// An apply of what is not there costs a server half as much again as a create of the same, or more: it looks for the object first, and merges the document
// with nothing. So an apply that is told that the object is new (WriteOptions.New) creates it. Two things are different then, and mended here:
//
//   - A create records its fields as an update's, by a manager who is told from others by creationSuffix. The next applies take over what they have, but a
//     field that one of them leaves out stays, since the create still has it. When that happens the fields are given to the apply's manager, as
//     kubectl does with those of its client-side apply, and the document is applied once more.
//   - A create also has the fields that the server fills in with defaults. To give those back and forth is not worth what the create saved, so
//     the objects of a kind whose first one has such are applied from then on.

// creationSuffix makes of the name of a manager the one of creates that stand for its applies.
const creationSuffix = ":apply"

// maxManager is how long the name of a manager may be.
const maxManager = 128

// FieldManager is who an entry of managedFields speaks of: for what an Apply of this package created, the one who applied.
func FieldManager(e metav1.ManagedFieldsEntry) string {
	if e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" {
		return strings.TrimSuffix(e.Manager, creationSuffix)
	}
	return e.Manager
}

// apply sends the document that is the body of r, and fills obj with the answer. all says that the document has all that obj has.
func (c *restClient) apply(ctx context.Context, e endpoint, r request, obj Object, all bool, o WriteOptions) error {
	if o.New && r.query.Get("force") == "true" && c.isCreatable(e, r, obj) {
		if done, err := c.create(ctx, e, r, obj, all, o); done || err != nil {
			return err
		}
	}
	manager := r.query.Get("fieldManager")
	err := c.exchangeIfKind(ctx, r, obj, e.kind, false, o.Given)
	if o.DryRun {
		return err
	}
	live := obj
	switch {
	case apierrors.IsConflict(err) && manager != "" && strings.Contains(err.Error(), `"`+manager+creationSuffix+`"`): // with oneself
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(e.kind)
		if err := c.Get(ctx, KeyOf(obj), meta); err != nil {
			return err
		}
		live = meta
	case err != nil:
		return err
	default:
		if created := createdFields(obj, manager); created == nil || hasAll(created, r.body) {
			return nil
		}
	}
	if err := c.takeOver(ctx, r, live, manager); err != nil {
		return err
	}
	return c.exchangeIfKind(ctx, r, obj, e.kind, false, o.Given)
}

// isCreatable says whether a create may stand for an apply.
func (c *restClient) isCreatable(e endpoint, r request, obj Object) bool {
	if plain, known := c.plain.Load(e.kind); known && !plain.(bool) {
		return false
	}
	if obj.GetUID() != "" || obj.GetResourceVersion() != "" {
		return false // this is about an object that there was
	}
	manager := r.query.Get("fieldManager")
	return manager != "" && len(manager)+len(creationSuffix) <= maxManager
}

// create sends the document of an apply as a create. It is not done if the object has to be applied after all.
func (c *restClient) create(ctx context.Context, e endpoint, r request, obj Object, all bool, o WriteOptions) (done bool, err error) {
	key := KeyOf(obj)
	r.method, r.path, r.contentType = http.MethodPost, e.path(key.Namespace, "", ""), jsonType
	manager := r.query.Get("fieldManager")
	asMessage := all && obj.GetManagedFields() == nil && c.sendsMessages(obj, o)
	o.FieldOwner = manager + creationSuffix
	if o.FieldValidation == "" {
		o.FieldValidation = metav1.FieldValidationStrict // an apply of a field that the kind does not have is an error
	}
	r.query = o.query()
	var dropped string
	if asMessage {
		dropped, err = c.exchangeMessage(ctx, r, obj, e, o.Given)
	} else {
		err = c.exchangeIfKind(ctx, r, obj, e.kind, false, o.Given)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, err
	case dropped != "":
		c.plain.Store(e.kind, false)
		return o.DryRun, nil // the apply's answer says what is wrong with the field, if anything is
	}
	if _, known := c.plain.Load(e.kind); !known {
		created := createdFields(obj, manager)
		c.plain.Store(e.kind, created == nil || hasAll(created, r.body))
	}
	return true, nil
}

// takeOver gives what was created for a manager to the applies of that manager. obj is the object as the server has it.
func (c *restClient) takeOver(ctx context.Context, r request, obj Object, manager string) error {
	var err error
	r.body, err = csaupgrade.UpgradeManagedFieldsPatch(obj, sets.New(manager+creationSuffix), manager)
	if err != nil || r.body == nil {
		return err
	}
	r.contentType = string(types.JSONPatchType)
	r.query = WriteOptions{FieldOwner: manager}.query()
	_, err = c.read(ctx, r)
	return err
}

// createdFields are the fields of obj that a create for an apply of the manager has, as managedFields has them; nil if there are none.
func createdFields(obj Object, manager string) []byte {
	if u, ok := obj.(*unstructured.Unstructured); ok && !hasEntryOf(u, manager+creationSuffix) {
		return nil // to get the entries of these takes much longer
	}
	entries := obj.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		if e.Manager == manager+creationSuffix && FieldManager(*e) == manager && e.FieldsV1 != nil {
			return e.FieldsV1.Raw
		}
	}
	return nil
}

func hasEntryOf(u *unstructured.Unstructured, manager string) bool {
	entries, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
	list, _ := entries.([]any)
	for _, e := range list {
		if e, ok := e.(map[string]any); ok && e["manager"] == manager {
			return true
		}
	}
	return false
}

// hasAll says that a document has a value for each of the fields, which are in the format FieldsV1. No is perhaps.
func hasAll(fields, document []byte) bool {
	set, err := tree.Parse(fields, nil)
	if err != nil {
		return false
	}
	doc, err := tree.Parse(document, nil)
	return err == nil && covers(doc, set)
}

// covers says that a value has all that a set of fields tells of it. The format is that of
// sigs.k8s.io/structured-merge-diff/fieldpath: "f:" is before the name of a field, "k:" before the keys of an item of a list, "v:" before an
// item, and "." is the value itself.
func covers(value any, fields map[string]any) bool {
	for name, below := range fields {
		if name == "." {
			continue
		}
		kind, rest, _ := strings.Cut(name, ":")
		var at any
		var there bool
		switch kind {
		case "f":
			object, _ := value.(map[string]any)
			at, there = object[rest]
		case "k", "v":
			want, err := (&tree.Parser{Data: []byte(rest)}).Value()
			if err != nil {
				return false
			}
			list, _ := value.([]any)
			at, there = find(list, kind, want)
		}
		if !there {
			return false
		}
		if below, ok := below.(map[string]any); ok && len(below) > 0 && !covers(at, below) {
			return false
		}
	}
	return true
}

// find is the item of a list that is want, or has the fields of it, if it is of kind "k".
func find(list []any, kind string, want any) (any, bool) {
	keys, _ := want.(map[string]any)
	for _, item := range list {
		if kind == "v" {
			if tree.Same(item, want) {
				return item, true
			}
			continue
		}
		object, ok := item.(map[string]any)
		for name, value := range keys {
			ok = ok && tree.Same(object[name], value)
		}
		if ok {
			return item, true
		}
	}
	return nil, false
}
