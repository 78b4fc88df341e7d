package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/tree"
)

// A merge patch of the status of a custom resource costs kube-apiserver a quarter more than an update of the same: it encodes the object, patches the
// text, and decodes it. An update says the status as a whole, though, and an object as a Go type knows it may have less than there is. So a StatusPatch is
// sent as an update where both come to the same:
//
//   - The kind is a custom resource: of an update of its status a server takes the status, and nothing else that the document has or has not
//     (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#status-subresource). Types that are compiled into a
//     server may do otherwise. These take strategic merge patches and custom resources do not, which is how they are told apart, with a dry run.
//   - Nobody else has written to the status, and all of what was written is in what the type knows. managedFields tell both.
//   - The object is as it was read, which its resourceVersion says. The patch has the same condition.

// StatusPatch is a JSON merge patch of a status, on the condition that the object is as it was read. A client may send an update in its place.
type StatusPatch struct {
	// Document is the patch, with a resourceVersion in its metadata.
	Document []byte
	// Before is the object as it was read, with its managedFields; nil if that is not known.
	Before Object
	// Old and New are its status, before and after, in JSON.
	Old, New []byte
}

// Type is that of a merge patch.
func (StatusPatch) Type() types.PatchType { return types.MergePatchType }

// Data is the document.
func (p StatusPatch) Data(Object) ([]byte, error) { return p.Document, nil }

// replaceStatus sends an update for a patch of a status, if both come to the same. It is not done if the patch has to be sent.
func (c *restClient) replaceStatus(ctx context.Context, e endpoint, r request, obj Object, p StatusPatch, o WriteOptions) (done bool, err error) {
	if _, builtin := builtinKind(obj); builtin || !p.isWhole(r.query.Get("fieldManager")) || !c.isCustom(ctx, e, r) {
		return false, nil
	}
	r.method, r.contentType = http.MethodPut, jsonType
	if r.body, err = p.update(e.kind); err != nil {
		return false, nil // the patch can do without
	}
	err = c.exchangeIfKind(ctx, r, obj, e.kind, true, o.Given)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), apierrors.IsUnsupportedMediaType(err):
		c.custom.Store(e.kind, false)
		return false, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err): // what is wrong need not be what the patch changes
		return false, nil
	}
	return true, err
}

// isCustom says that a kind is a custom resource, as far as is known: it asks once.
func (c *restClient) isCustom(ctx context.Context, e endpoint, r request) bool {
	known, asked := c.custom.LoadOrStore(e.kind, false)
	if asked {
		return known.(bool)
	}
	r.contentType, r.body = string(types.StrategicMergePatchType), []byte("{}")
	r.query = WriteOptions{DryRun: true}.query()
	_, err := c.read(ctx, r)
	if apierrors.IsUnsupportedMediaType(err) {
		c.custom.Store(e.kind, true)
		return true
	}
	var status apierrors.APIStatus
	if err != nil && (!errors.As(err, &status) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || status.Status().Code >= http.StatusInternalServerError) {
		c.custom.Delete(e.kind) // this said nothing: it is asked again
	}
	return false
}

// isWhole says that an update loses nothing: that all the fields of the status are in Old, and those of one manager.
func (p StatusPatch) isWhole(manager string) bool {
	if p.Before == nil || p.Before.GetResourceVersion() == "" || manager == "" {
		return false
	}
	if u, ok := p.Before.(*unstructured.Unstructured); ok {
		entries, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
		list, _ := entries.([]any)
		for _, e := range list {
			e, _ := e.(map[string]any)
			fields, _ := e["fieldsV1"].(map[string]any)
			if fields[statusField] == nil {
				continue
			}
			if e["manager"] != manager || e["operation"] != string(metav1.ManagedFieldsOperationUpdate) || !p.coversOld(fields) {
				return false
			}
		}
		return len(list) > 0
	}
	entries := p.Before.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 == nil || !bytes.Contains(e.FieldsV1.Raw, []byte(`"`+statusField+`"`)) {
			continue
		}
		fields, err := tree.Parse(e.FieldsV1.Raw, nil)
		if err == nil && fields[statusField] == nil {
			continue // it is of another field of that name
		}
		if err != nil || e.Manager != manager || e.Operation != metav1.ManagedFieldsOperationUpdate || !p.coversOld(fields) {
			return false
		}
	}
	return len(entries) > 0
}

// statusField is how managedFields name the status.
const statusField = "f:status"

// coversOld says that the old status has all of the fields that a set has below the status.
func (p StatusPatch) coversOld(fields map[string]any) bool {
	set, _ := fields[statusField].(map[string]any)
	old, err := tree.Parse(p.Old, nil)
	return err == nil && covers(old, set)
}

// update is the document of an update of the status.
func (p StatusPatch) update(kind schema.GroupVersionKind) ([]byte, error) {
	data, err := tree.Append(nil, map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{
			"namespace": p.Before.GetNamespace(), "name": p.Before.GetName(), "uid": string(p.Before.GetUID()), "resourceVersion": p.Before.GetResourceVersion(),
		},
	}, nil)
	if err != nil || bytes.Equal(p.New, []byte("null")) {
		return data, err
	}
	data = append(data[:len(data)-1], `,"status":`...)
	return append(append(data, p.New...), '}'), nil
}
