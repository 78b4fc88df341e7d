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

	"kelson.dev/internal/tree"
)

// A server-side apply of a missing object costs a server at least one and a half times as much as a
// create: the server looks the object up, and merges the document into an empty object. So if the
// caller says that the object is new (WriteOptions.New), Apply creates it. This file resolves the
// differences from an apply:
//
//   - A create records its fields under the operation Update, by a manager with the suffix
//     creationSuffix. Later applies also own these fields, but a field that such an apply leaves
//     out stays, because the create still owns it. In that case the client transfers the fields to
//     the apply's manager, as kubectl does after client-side apply, and applies the document again.
//   - A create also owns the fields that the server sets to defaults. Transferring these would cost
//     more than the create saves. If the first object of a kind has such fields, later objects of
//     the kind are applied.

// creationSuffix marks the manager name of creates that replace applies.
const creationSuffix = ":apply"

// maxManager is the longest manager name that Kubernetes accepts.
const maxManager = 128

// FieldManager returns the manager of a managedFields entry. For fields of an object that Apply
// created, it returns the manager of the apply.
func FieldManager(e metav1.ManagedFieldsEntry) string {
	if e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" {
		return strings.TrimSuffix(e.Manager, creationSuffix)
	}
	return e.Manager
}

// apply sends the document in r.body and fills obj with the response. all reports whether the
// document has all fields of obj.
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
	live := obj // nil if it must be read
	switch {
	// a conflict with the client's own create
	case apierrors.IsConflict(err) && manager != "" && strings.Contains(err.Error(), `"`+manager+creationSuffix+`"`):
		live = nil
	case err != nil:
		return err
	default:
		if created := createdFields(obj, manager); created == nil || hasAll(created, r.body) && !c.off.Applies {
			return nil
		}
	}
	for try := 1; ; try++ {
		if live == nil {
			meta := &metav1.PartialObjectMetadata{}
			meta.SetGroupVersionKind(e.kind)
			if err := c.Get(ctx, KeyOf(obj), meta); err != nil {
				return err
			}
			live = meta
		}
		err := c.takeOver(ctx, r, live, manager)
		if err == nil {
			return c.exchangeIfKind(ctx, r, obj, e.kind, false, o.Given)
		}
		if !apierrors.IsConflict(err) || try == takeOverTries {
			return err
		}
		live = nil // another client has written the object: a forced apply has no conflict
	}
}

// takeOverTries bounds how often fields are transferred if other clients write at the same time.
const takeOverTries = 5

// isCreatable reports whether a create may replace an apply.
func (c *restClient) isCreatable(e endpoint, r request, obj Object) bool {
	if c.off.Applies {
		return false
	}
	if plain, known := c.plain.Load(e.kind); known && !plain.(bool) {
		return false
	}
	if obj.GetUID() != "" || obj.GetResourceVersion() != "" {
		return false // the caller refers to an existing object
	}
	manager := r.query.Get("fieldManager")
	return manager != "" && len(manager)+len(creationSuffix) <= maxManager
}

// create sends the document of an apply as a create. done is false if the caller must apply the
// object after all.
func (c *restClient) create(ctx context.Context, e endpoint, r request, obj Object, all bool,
	o WriteOptions) (done bool, err error) {
	path, err := e.path(obj.GetNamespace(), "", "")
	if err != nil {
		return false, err
	}
	r.method, r.path, r.contentType = http.MethodPost, path, jsonType
	manager := r.query.Get("fieldManager")
	asMessage := all && obj.GetManagedFields() == nil && c.sendsMessages(obj, o)
	o.FieldOwner = manager + creationSuffix
	if o.FieldValidation == "" {
		// an apply rejects fields that the kind does not have
		o.FieldValidation = metav1.FieldValidationStrict
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
		// the response to the apply describes the error in the field, if there is one
		return o.DryRun, nil
	}
	if _, known := c.plain.Load(e.kind); !known {
		created := createdFields(obj, manager)
		c.plain.Store(e.kind, created == nil || hasAll(created, r.body))
	}
	return true, nil
}

// takeOver transfers the fields of the create to the applies of the manager. obj is the object as
// the server has it.
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

// createdFields returns the fields of obj, in the format of managedFields, that a create by the
// manager owns; nil if there are none.
func createdFields(obj Object, manager string) []byte {
	if u, ok := obj.(*unstructured.Unstructured); ok && !hasEntryOf(u, manager+creationSuffix) {
		return nil // converting managedFields of unstructured objects is slow
	}
	entries := obj.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		if e.Manager == manager+creationSuffix && FieldManager(*e) == manager && e.FieldsV1 != nil {
			return e.FieldsV1.GetRawBytes()
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

// hasAll reports whether a document has a value for each of the fields, which are in the format
// FieldsV1. False can also mean unknown.
func hasAll(fields, document []byte) bool {
	set, err := tree.Parse(fields, nil)
	if err != nil {
		return false
	}
	doc, err := tree.Parse(document, nil)
	return err == nil && covers(doc, set)
}

// covers reports whether a value has all fields of a set. The format is that of
// sigs.k8s.io/structured-merge-diff/fieldpath: "f:" precedes a field name, "k:" the keys of a list
// item, "v:" an item value, and "." is the value itself.
func covers(value any, fields map[string]any) bool {
	for name, below := range fields {
		if name == "." {
			continue
		}
		kind, rest, _ := strings.Cut(name, ":")
		var at any
		var found bool
		switch kind {
		case "f":
			object, _ := value.(map[string]any)
			at, found = object[rest]
		case "k", "v":
			want, err := (&tree.Parser{Data: []byte(rest)}).Value()
			if err != nil {
				return false
			}
			list, _ := value.([]any)
			at, found = find(list, kind, want)
		}
		if !found {
			return false
		}
		if below, ok := below.(map[string]any); ok && len(below) > 0 && !covers(at, below) {
			return false
		}
	}
	return true
}

// find returns the list item that equals want or, for kind "k", has the fields of want.
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
